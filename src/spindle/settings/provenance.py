"""The place that each setting in force comes from: a line of a file, or a variable of the environment."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from spindle.settings.lines import KeyPath, lines_of
from spindle.settings.tables import apply_environment

if TYPE_CHECKING:
    from spindle.settings import Settings


@dataclass(frozen=True, slots=True)
class WrittenSetting:
    """A setting that somebody wrote."""

    path: KeyPath
    value: Any
    file: Path | None = None
    line: int | None = None
    variable: str | None = None
    """The variable of the environment that sets it."""


def written_settings(settings: Settings) -> list[WrittenSetting]:
    """Returns every setting in force that is no default, by table. `${VAR}` stays as it is."""
    variables = apply_environment(deepcopy(settings.raw), settings.environ)
    lines = {file: _lines(file) for file in settings.files}
    own = set(settings.own_files.values())
    shared = [file for file in reversed(settings.files) if file not in own]
    found: list[WrittenSetting] = []
    for path, value in _leaves(settings.raw):
        if (variable := variables.get(path)) is not None:
            found.append(WrittenSetting(path, value, variable=variable))
            continue
        file, line = _place(settings, path, shared, lines)
        found.append(WrittenSetting(path, value, file, line))
    return found


def _place(
    settings: Settings, path: KeyPath, shared: list[Path], lines: Mapping[Path, Mapping[KeyPath, int]]
) -> tuple[Path | None, int | None]:
    places = [(file, path) for file in shared]
    if path[0] == "sources" and len(path) > 1:
        origin = settings.origins.get(path[1])
        places = [(file, path) for file, path in places if str(file) == origin]
        if (own := settings.own_files.get(path[1])) is not None:
            places.append((own, path[2:]))
    # What an inline table holds stands where its key does.
    for shorter in range(len(path)):
        for file, inner in places:
            known = lines.get(file, {}).get(inner[: len(inner) - shorter])
            if known is not None:
                return file, known
    return None, None


def _lines(file: Path) -> dict[KeyPath, int]:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return lines_of(file.read_text("utf-8"))
    return {}


def _leaves(table: Mapping[str, Any], inside: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    for key, value in table.items():
        path = (*inside, key)
        if isinstance(value, dict) and value:
            yield from _leaves(cast("dict[str, Any]", value), path)
        elif value != {}:
            yield path, value
