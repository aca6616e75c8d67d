"""Finds the classes of mods and makes their objects."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel, ValidationError

from spindle.errors import suggest
from spindle.ports.mod import Mod
from spindle.sources.code.modules import FolderModules

if TYPE_CHECKING:
    from spindle.ports.source import Note

GROUP = "spindle.mods"


class UnusableModError(Exception):
    """A mod that cannot be used; the message says why."""


def mod_classes(
    folder: Path | None, configured: Mapping[str, dict[str, Any]], note: Note
) -> dict[str, type[Mod]]:
    """The classes by name: those in the folder, and those installed ones that have settings."""
    found = _classes_in(folder, note) if folder is not None and folder.is_dir() else {}
    wanted = [name for name in configured if name not in found]
    if wanted:
        # Only if needed, since scanning all installed packages takes a while.
        from importlib.metadata import entry_points

        installed = {entry.name: entry for entry in entry_points(group=GROUP)}
        for name in wanted:
            if name not in installed:
                meant = suggest(name, [*found, *installed])
                note(f"mods.{name}: there is no such mod" + (f"; did you mean {meant!r}?" if meant else ""))
                continue
            try:
                found[name] = installed[name].load()
            except Exception as error:  # noqa: BLE001 - somebody else's code: reported, and left out
                note(f"mods.{name}: {installed[name].value} cannot be loaded: {error!r}")
    return found


def make(name: str, cls: type[Mod], settings: dict[str, Any]) -> Mod:
    """Makes the object of a mod with its settings."""
    given = {key: value for key, value in settings.items() if key != "enabled"}
    model: Any = getattr(cls, "Config", None)
    if isinstance(model, type) and issubclass(model, BaseModel):
        try:
            return cast(Any, cls)(model.model_validate(given))
        except ValidationError as error:
            problems = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()]
            raise UnusableModError(f"its settings are wrong: {'; '.join(problems)}") from None
    if _takes_settings(cls):
        return cast(Any, cls)(given)
    if given:
        raise UnusableModError(f"it takes no settings, but has {', '.join(sorted(given))}")
    return cls()


def _classes_in(folder: Path, note: Note) -> dict[str, type[Mod]]:
    found: dict[str, type[Mod]] = {}
    places: dict[str, Path] = {}
    for path, module in FolderModules(folder).load_all():
        if isinstance(module, str):
            note(f"{path} cannot be imported and is left out: {module}")
            continue
        for cls in vars(module).values():
            if not _is_mod(cls, module.__name__):
                continue
            name = str(getattr(cls, "name", None) or _snake_case(cls.__name__))
            if name in found:
                note(f"{path}: a second mod is called {name!r}; the one in {places[name]} is used")
            else:
                found[name], places[name] = cls, path
    return found


def _is_mod(value: Any, module: str) -> bool:
    return (
        inspect.isclass(value)
        and value.__module__ == module
        and not value.__name__.startswith("_")
        and callable(getattr(value, "get_tools", None))
        and not inspect.isabstract(value)
    )


def _takes_settings(cls: type[Mod]) -> bool:
    if cls.__init__ is object.__init__:
        return False
    parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
    return any(item.kind in (item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD) for item in parameters)


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
