"""Spares a command the search of pydantic for plugins.

Before its first model, pydantic looks through what every installed package declares, with a library that
takes longer to load and more memory than our settings. Nearly nobody has a plugin, and seeing that none is
declared takes a few reads.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from types import ModuleType
from typing import Any

MODULE = "pydantic.plugin._loader"


def look_first() -> None:
    """Has pydantic's own search begin only where a package declares a plugin."""
    sys.modules.setdefault(MODULE, _Loader(MODULE))


class _Loader(ModuleType):
    """Stands for pydantic's module until a plugin is there, or another of its names is wanted."""

    _none_declared: bool | None = None

    def get_plugins(self) -> Iterable[Any]:
        if self._none_declared is None:
            self._none_declared = not any(map(_declares_plugin, sys.path))
        return () if self._none_declared else self.__getattr__("get_plugins")()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        from importlib import import_module

        if sys.modules.get(MODULE) is self:
            del sys.modules[MODULE]
        return getattr(import_module(MODULE), name)


def _declares_plugin(folder: str) -> bool:
    """True if a package in this folder declares a plugin, or only pydantic itself can tell."""
    try:
        with os.scandir(folder or ".") as found:
            packages = [item.path for item in found if item.name.endswith((".dist-info", ".egg-info"))]
    except NotADirectoryError:
        return True  # an archive
    except OSError:
        return False
    return any(map(_has_group, packages))


def _has_group(package: str) -> bool:
    try:
        with open(os.path.join(package, "entry_points.txt"), "rb") as file:
            return b"[pydantic]" in file.read()
    except OSError:
        return False
