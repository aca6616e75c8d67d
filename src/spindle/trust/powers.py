"""The powers that trust would give to a workspace, as far as its files say: for a person to look at."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from spindle.trust.coverage import PYTHON, Coverage, texts

_PROGRAMS = ("command", "program")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]{0,200})")
_HOST = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]{0,40})://([^\s/?#]{1,300})")


@dataclass(frozen=True)
class Powers:
    """Lists the things that a workspace could do, each with the place in the settings that says so."""

    programs: tuple[tuple[str, str], ...]
    python: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]
    hosts: tuple[tuple[str, str], ...]
    files: tuple[str, ...]
    """Other files that steer what runs."""
    state: str = ""
    """The stored state that came with the folder."""

    def to_dict(self) -> dict[str, Any]:
        """The powers as JSON."""
        return {
            "programs": [{"source": where, "command": what} for where, what in self.programs],
            "python": list(self.python),
            "variables": [{"name": what, "used_by": where} for where, what in self.variables],
            "hosts": [{"host": what, "used_by": where} for where, what in self.hosts],
            "files": list(self.files),
            "state": self.state or None,
        }


def powers(coverage: Coverage, written: Mapping[str, Any], state: Path) -> Powers:
    """Reads the powers from settings and files, without expanding or running anything."""
    variables: dict[tuple[str, str], None] = {}
    hosts: dict[tuple[str, str], None] = {}
    for keys, text in texts(written):
        where = ".".join(keys)
        variables |= {(where, match[1]): None for match in _VARIABLE.finditer(text)}
        if match := _HOST.match(text):
            hosts[where, _host(text, match)] = None
    python = tuple(place for place in coverage.files if place.lower().endswith(PYTHON))
    return Powers(
        tuple(_programs(written, ())),
        python,
        tuple(variables),
        tuple(hosts),
        tuple(place for place in coverage.files if place not in python),
        str(state) if state.exists() else "",
    )


def _host(text: str, match: re.Match[str]) -> str:
    """The host of an address, or as much of the address as names it where that is not known yet."""
    if "$" not in match[2]:
        try:
            if host := urlsplit(text.strip()).hostname:
                return host
        except ValueError:
            pass
    return f"{match[1]}://{match[2]}"


def _programs(value: Any, keys: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        table = cast("Mapping[str, Any]", value)
        for name in _PROGRAMS:
            if (words := _words(table.get(name))) is not None:
                args = _words(table.get("args")) if name == "command" else None
                yield ".".join(keys) or name, " ".join(filter(None, (words, args)))
        for key, item in table.items():
            yield from _programs(item, (*keys, str(key)))


def _words(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return shlex.join(str(word) for word in cast("Sequence[Any]", value))
    return None
