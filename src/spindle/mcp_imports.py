"""Imports the MCP SDK without the parts that Spindle never uses.

Importing any part of `mcp` runs the packages' own `__init__`, which load all of it: a server framework, a
cipher library, an HTTP client; 11 MB, and a good part of the time that a command takes. `spare` puts the
packages in place without running those files. A file is run when a name that the package does not have yet,
such as `mcp.Client`, is first asked for.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from types import ModuleType
from typing import Any

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


def spare() -> None:
    """Prepares light imports of the SDK; call it before the first one. Packages already imported stay as
    they are."""
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
