"""Spares a command the search of pydantic for plugins.

Before its first model, pydantic looks through what every installed package declares, with a library that
takes longer to load and more memory than our settings.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from spindle.ports.declared import is_declared

MODULE = "pydantic.plugin._loader"


def look_first() -> None:
    """Has pydantic's own search begin only where a package declares a plugin."""
    sys.modules.setdefault(MODULE, _Loader(MODULE))


class _Loader(ModuleType):
    """Stands for pydantic's module until a plugin is there, or another of its names is wanted."""

    _none_declared: bool | None = None

    def get_plugins(self) -> Iterable[Any]:
        if self._none_declared is None:
            self._none_declared = not is_declared("pydantic")
        return () if self._none_declared else self.__getattr__("get_plugins")()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        from importlib import import_module

        if sys.modules.get(MODULE) is self:
            del sys.modules[MODULE]
        return getattr(import_module(MODULE), name)
