"""The one door to the MCP SDK: every part of it that Spindle uses is imported from here.

Most of these parts are insides that the SDK does not document, so they may change with any version:
`tests/test_mcp_imports.py` says which did. Importing any part of `mcp` also runs the packages' own
`__init__`, which load all of it: a server framework, a cipher library, an HTTP client; 11 MB, and a good
part of the time that a command takes. Here the packages are put in place without running those files, and
a part is loaded when its name is first imported. Code that asks one of the packages for a name that it does
not have yet, such as `mcp.Client`, has the file run then, and notices nothing.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import sys
import threading
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp.server.connection import Connection as Connection
    from mcp.server.connection import NotifyOnlyOutbound as NotifyOnlyOutbound
    from mcp.server.context import ServerRequestContext as ServerRequestContext
    from mcp.server.lowlevel import NotificationOptions as NotificationOptions
    from mcp.server.lowlevel import Server as Server
    from mcp.server.models import InitializationOptions as InitializationOptions
    from mcp.server.runner import ServerRunner as ServerRunner
    from mcp.server.runner import aclose_shielded as aclose_shielded
    from mcp.server.runner import modern_error_data as modern_error_data
    from mcp.server.runner import serve_one as serve_one
    from mcp.server.subscriptions import InMemorySubscriptionBus as InMemorySubscriptionBus
    from mcp.server.subscriptions import ListenHandler as ListenHandler
    from mcp.server.subscriptions import ResourceUpdated as ResourceUpdated
    from mcp.shared.dispatcher import CallOptions as CallOptions
    from mcp.shared.dispatcher import DispatchContext as DispatchContext
    from mcp.shared.dispatcher import as_request_id as as_request_id
    from mcp.shared.dispatcher import coerce_request_id as coerce_request_id
    from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS as ERROR_CODE_HTTP_STATUS
    from mcp.shared.inbound import InboundLadderRejection as InboundLadderRejection
    from mcp.shared.inbound import InboundModernRoute as InboundModernRoute
    from mcp.shared.inbound import classify_inbound_request as classify_inbound_request
    from mcp.shared.inbound import find_duplicated_routing_header as find_duplicated_routing_header
    from mcp.shared.inbound import (
        unsupported_protocol_version_rejection as unsupported_protocol_version_rejection,
    )
    from mcp.shared.inbound import validate_mcp_param_headers as validate_mcp_param_headers
    from mcp.shared.inbound import x_mcp_header_map as x_mcp_header_map
    from mcp.shared.jsonrpc_dispatcher import (
        cancelled_request_id_from_params as cancelled_request_id_from_params,
    )
    from mcp.shared.jsonrpc_dispatcher import progress_token_from_params as progress_token_from_params
    from mcp.shared.message import ServerMessageMetadata as ServerMessageMetadata
    from mcp.shared.subscriptions import PromptsListChanged as PromptsListChanged
    from mcp.shared.subscriptions import ResourcesListChanged as ResourcesListChanged
    from mcp.shared.subscriptions import ServerEvent as ServerEvent
    from mcp.shared.subscriptions import ToolsListChanged as ToolsListChanged
    from mcp.shared.transport_context import TransportContext as TransportContext

PARTS = {
    "mcp.server.connection": "Connection NotifyOnlyOutbound",
    "mcp.server.context": "ServerRequestContext",
    "mcp.server.lowlevel": "NotificationOptions Server",
    "mcp.server.models": "InitializationOptions",
    "mcp.server.runner": "ServerRunner aclose_shielded modern_error_data serve_one",
    "mcp.server.subscriptions": "InMemorySubscriptionBus ListenHandler ResourceUpdated",
    "mcp.shared.dispatcher": "CallOptions DispatchContext as_request_id coerce_request_id",
    "mcp.shared.inbound": (
        "ERROR_CODE_HTTP_STATUS InboundLadderRejection InboundModernRoute classify_inbound_request "
        "find_duplicated_routing_header unsupported_protocol_version_rejection "
        "validate_mcp_param_headers x_mcp_header_map"
    ),
    "mcp.shared.jsonrpc_dispatcher": ("cancelled_request_id_from_params progress_token_from_params"),
    "mcp.shared.message": "ServerMessageMetadata",
    "mcp.shared.subscriptions": "PromptsListChanged ResourcesListChanged ServerEvent ToolsListChanged",
    "mcp.shared.transport_context": "TransportContext",
}
"""The names that are used of each module of the SDK."""
_MODULES = {name: module for module, names in PARTS.items() for name in names.split()}

PACKAGES = ("mcp", "mcp.client", "mcp.server")

_running = threading.local()


class _Spared(ModuleType):
    def __getattr__(self, name: str) -> Any:
        # Called only for names that the module does not have.
        mine: set[str] = _running.__dict__.setdefault("names", set())
        if type(self) is _Spared and self.__name__ not in mine:
            mine.add(self.__name__)
            try:
                # Two threads may both do so: these files do nothing but import. A lock here could wait for a
                # thread which, in the middle of an import, waits for this one.
                _run(self)
            finally:
                mine.discard(self.__name__)
            self.__class__ = ModuleType  # pyright: ignore[reportAttributeAccessIssue] - a plain one from now on
        if name in self.__dict__:
            return self.__dict__[name]
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


def _run(module: ModuleType) -> None:
    spec = module.__spec__
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(module)


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _spare()
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        version = importlib.metadata.version("mcp")
        raise ImportError(f"Spindle does not work with version {version} of mcp: {error}") from error
    globals()[name] = found
    return found


def _spare() -> None:
    # A package that is there already stays as it is.
    for name in PACKAGES:
        if name in sys.modules:
            continue
        spec = importlib.util.find_spec(name)
        if spec is None:
            return  # the import itself will say what is missing
        module = importlib.util.module_from_spec(spec)
        module.__class__ = _Spared
        sys.modules[name] = module
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)
