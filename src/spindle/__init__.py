"""Spindle: one catalog for every tool that an agent, a flow, a person or a program can call.

async with spindle.open("workspace") as s:
    result = await s.call("fs.read_text_file", path="notes.txt")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spindle.version import __version__ as __version__

if TYPE_CHECKING:
    from spindle.adapters.state_store import StateStore as StateStore
    from spindle.agents.agent import Agent as Agent
    from spindle.agents.events import AgentEvent as AgentEvent
    from spindle.agents.limits import Limits as Limits
    from spindle.agents.outcomes import AgentResult as AgentResult
    from spindle.app import Spindle as Spindle
    from spindle.auth.credentials import CredentialProvider as CredentialProvider
    from spindle.blocking import BlockingSpindle as BlockingSpindle
    from spindle.calls.caller import CallOptions as CallOptions
    from spindle.calls.context import Context as Context
    from spindle.calls.limits import Limit as Limit
    from spindle.calls.permissions import Permission as Permission
    from spindle.calls.permissions import Visible as Visible
    from spindle.catalog.diff import SyncReport as SyncReport
    from spindle.console.oauth_callback import callback_app as callback_app
    from spindle.domain.call import Block as Block
    from spindle.domain.call import CallRecord as CallRecord
    from spindle.domain.call import Progress as Progress
    from spindle.domain.call import Result as Result
    from spindle.domain.event import Event as Event
    from spindle.domain.identity import Credential as Credential
    from spindle.domain.identity import Principal as Principal
    from spindle.domain.question import Answer as Answer
    from spindle.domain.question import OnQuestion as OnQuestion
    from spindle.domain.question import SourceQuestion as SourceQuestion
    from spindle.domain.resource import FilledPrompt as FilledPrompt
    from spindle.domain.resource import Resource as Resource
    from spindle.domain.resource import ResourceChange as ResourceChange
    from spindle.domain.resource import SourcePrompt as SourcePrompt
    from spindle.domain.source import SourceConfig as SourceConfig
    from spindle.domain.tool import Hints as Hints
    from spindle.domain.tool import Tool as Tool
    from spindle.domain.tool import ToolSummary as ToolSummary
    from spindle.errors import ApprovalRequired as ApprovalRequired
    from spindle.errors import AuthError as AuthError
    from spindle.errors import AuthorizationRequired as AuthorizationRequired
    from spindle.errors import BreakerOpenError as BreakerOpenError
    from spindle.errors import BusyError as BusyError
    from spindle.errors import CallTimeoutError as CallTimeoutError
    from spindle.errors import CancelledCallError as CancelledCallError
    from spindle.errors import ClientError as ClientError
    from spindle.errors import ConfigurationError as ConfigurationError
    from spindle.errors import ConnectionFailedError as ConnectionFailedError
    from spindle.errors import FlowError as FlowError
    from spindle.errors import InDoubtError as InDoubtError
    from spindle.errors import InputRequired as InputRequired
    from spindle.errors import Interruption as Interruption
    from spindle.errors import InvalidArgumentsError as InvalidArgumentsError
    from spindle.errors import LoopError as LoopError
    from spindle.errors import ModelError as ModelError
    from spindle.errors import NameConflictError as NameConflictError
    from spindle.errors import NotFoundError as NotFoundError
    from spindle.errors import PermissionDeniedError as PermissionDeniedError
    from spindle.errors import RateLimitedError as RateLimitedError
    from spindle.errors import ResultTooLargeError as ResultTooLargeError
    from spindle.errors import RunLostError as RunLostError
    from spindle.errors import ServerError as ServerError
    from spindle.errors import SpindleError as SpindleError
    from spindle.errors import StoreAwayError as StoreAwayError
    from spindle.errors import StoreError as StoreError
    from spindle.errors import TableError as TableError
    from spindle.errors import ToolError as ToolError
    from spindle.errors import UntrustedError as UntrustedError
    from spindle.flows.node_cache import flow_safe as flow_safe
    from spindle.http.credentials import bearer as bearer
    from spindle.opening import open as open
    from spindle.ports.mod import Mod as Mod
    from spindle.ports.source import Note as Note
    from spindle.ports.source import Session as Session
    from spindle.ports.source import Source as Source
    from spindle.ports.store import RunStore as RunStore
    from spindle.ports.store import Store as Store
    from spindle.ports.token_store import GrantStore as GrantStore
    from spindle.ports.token_store import TokenGrant as TokenGrant
    from spindle.ports.token_store import TokenStore as TokenStore
    from spindle.runs.outcomes import Continuing as Continuing
    from spindle.runs.outcomes import Finished as Finished
    from spindle.runs.outcomes import OpenPause as OpenPause
    from spindle.runs.outcomes import Paused as Paused
    from spindle.sources.code.decorator import tool as tool

# Loaded when first used: `import spindle` in a user's tool file should cost next to nothing.
_HOMES = {
    "Agent": "spindle.agents.agent",
    "AgentEvent": "spindle.agents.events",
    "AgentResult": "spindle.agents.outcomes",
    "Answer": "spindle.domain.question",
    "ApprovalRequired": "spindle.errors",
    "AuthError": "spindle.errors",
    "AuthorizationRequired": "spindle.errors",
    "Block": "spindle.domain.call",
    "BlockingSpindle": "spindle.blocking",
    "BreakerOpenError": "spindle.errors",
    "BusyError": "spindle.errors",
    "CallOptions": "spindle.calls.caller",
    "CallRecord": "spindle.domain.call",
    "CallTimeoutError": "spindle.errors",
    "CancelledCallError": "spindle.errors",
    "ClientError": "spindle.errors",
    "ConfigurationError": "spindle.errors",
    "ConnectionFailedError": "spindle.errors",
    "Context": "spindle.calls.context",
    "Continuing": "spindle.runs.outcomes",
    "Credential": "spindle.domain.identity",
    "CredentialProvider": "spindle.auth.credentials",
    "Event": "spindle.domain.event",
    "FilledPrompt": "spindle.domain.resource",
    "Finished": "spindle.runs.outcomes",
    "FlowError": "spindle.errors",
    "GrantStore": "spindle.ports.token_store",
    "Hints": "spindle.domain.tool",
    "InDoubtError": "spindle.errors",
    "InputRequired": "spindle.errors",
    "Interruption": "spindle.errors",
    "InvalidArgumentsError": "spindle.errors",
    "Limit": "spindle.calls.limits",
    "Limits": "spindle.agents.limits",
    "LoopError": "spindle.errors",
    "Mod": "spindle.ports.mod",
    "ModelError": "spindle.errors",
    "NameConflictError": "spindle.errors",
    "NotFoundError": "spindle.errors",
    "Note": "spindle.ports.source",
    "OnQuestion": "spindle.domain.question",
    "OpenPause": "spindle.runs.outcomes",
    "Paused": "spindle.runs.outcomes",
    "Permission": "spindle.calls.permissions",
    "PermissionDeniedError": "spindle.errors",
    "Principal": "spindle.domain.identity",
    "Progress": "spindle.domain.call",
    "RateLimitedError": "spindle.errors",
    "Resource": "spindle.domain.resource",
    "ResourceChange": "spindle.domain.resource",
    "Result": "spindle.domain.call",
    "ResultTooLargeError": "spindle.errors",
    "RunLostError": "spindle.errors",
    "RunStore": "spindle.ports.store",
    "ServerError": "spindle.errors",
    "Session": "spindle.ports.source",
    "Source": "spindle.ports.source",
    "SourceConfig": "spindle.domain.source",
    "SourcePrompt": "spindle.domain.resource",
    "SourceQuestion": "spindle.domain.question",
    "Spindle": "spindle.app",
    "SpindleError": "spindle.errors",
    "StateStore": "spindle.adapters.state_store",
    "Store": "spindle.ports.store",
    "StoreAwayError": "spindle.errors",
    "StoreError": "spindle.errors",
    "SyncReport": "spindle.catalog.diff",
    "TableError": "spindle.errors",
    "TokenGrant": "spindle.ports.token_store",
    "TokenStore": "spindle.ports.token_store",
    "Tool": "spindle.domain.tool",
    "ToolError": "spindle.errors",
    "ToolSummary": "spindle.domain.tool",
    "UntrustedError": "spindle.errors",
    "Visible": "spindle.calls.permissions",
    "bearer": "spindle.http.credentials",
    "callback_app": "spindle.console.oauth_callback",
    "flow_safe": "spindle.flows.node_cache",
    "open": "spindle.opening",
    "tool": "spindle.sources.code.decorator",
}

__all__ = ["__version__", *_HOMES]  # noqa: PLE0604  # pyright: ignore[reportUnsupportedDunderAll]


if not TYPE_CHECKING:  # a type checker would take any name for known

    def __getattr__(name):
        if name not in _HOMES:
            from sys import modules

            # With the name and the module, Python's own message says which name was meant.
            message = f"module 'spindle' has no attribute {name!r}"
            raise AttributeError(message, name=name, obj=modules[__name__])
        from importlib import import_module

        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
