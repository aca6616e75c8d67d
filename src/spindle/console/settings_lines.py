"""Settings as lines of a list: what is in force, where it comes from, and nothing that is secret."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from spindle.calls.record import MASK, looks_secret
from spindle.settings.provenance import written_settings

if TYPE_CHECKING:
    from pydantic import BaseModel

    from spindle.settings import Settings

_REFERENCE: Final = re.compile(r"(?:[A-Za-z]+ )?\$\{[^}]*\}")
"""A value that only says where the secret is, such as `Bearer ${TOKEN}`."""
_KEY: Final = re.compile(r"(^|[_-])(key|value|pin|dsn)$", re.IGNORECASE)
_HOLDERS: Final = frozenset({"env", "headers", "environment", "cookies", "query"})
"""Tables whose values may all be secrets, whatever their names."""
_IN_ADDRESS: Final = re.compile(r"(?<=://)[^/@\s]+@")
_QUERY: Final = re.compile(r"(?<==)(?!\$\{)[^&\s]+")
_FLAG: Final = re.compile(r"--?[\w-]+")


@dataclass(frozen=True, slots=True)
class SettingLine:
    """One setting."""

    path: str
    value: str
    origin: str
    """The file with its line, the variable of the environment, or `default`."""
    is_default: bool = False


def setting_lines(settings: Settings, *, defaults: bool = False) -> list[SettingLine]:
    """Returns the settings in force by name; `defaults`: also those that nobody wrote."""
    written = written_settings(settings)
    lines = [
        SettingLine(".".join(item.path), shown_value(item.path, item.value), _origin(settings, item))
        for item in written
    ]
    if defaults:
        known = {item.path for item in written}
        lines += _defaults(settings, known)
    return sorted(lines, key=lambda line: line.path)


def _origin(settings: Settings, item: Any) -> str:
    if item.variable is not None:
        return f"environment: {item.variable}"
    if item.file is None:
        return "given by the program"
    return f"{_short(item.file, settings.root)}:{item.line}"


def _short(file: Path, root: Path) -> str:
    return str(file.relative_to(root)) if file.is_relative_to(root) else str(file)


def _defaults(settings: Settings, known: set[tuple[str, ...]]) -> Iterator[SettingLine]:
    tables: dict[str, BaseModel] = {
        "agent": settings.agent(),
        "engine": settings.engine(),
        "retention": settings.retention(),
        "serve": settings.serve(),
        "up": settings.up(),
    }
    for name, model in tables.items():
        for path, value in _leaves(model.model_dump(mode="json"), (name,)):
            # A table that was written, and what is a list there, has its own line.
            if not any(path[:end] in known for end in range(2, len(path) + 1)):
                yield SettingLine(".".join(path), shown_value(path, value), "default", is_default=True)


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict) and value:
        for key, item in cast("dict[str, Any]", value).items():
            yield from _leaves(item, (*path, key))
    else:
        yield path, value


def shown_value(path: Sequence[str], value: Any) -> str:
    """Returns a value as JSON, with what may be a secret masked; a reference to one is shown."""
    return json.dumps(_masked(path, value), ensure_ascii=False, default=str)[:2000]


def _masked(path: Sequence[str], value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _masked((*path, key), item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return _masked_words(path, list(cast("Sequence[Any]", value)))
    if value is None or isinstance(value, bool):
        return value
    is_secret = _is_secret(path[-1]) or any(step in _HOLDERS for step in path[:-1])
    if is_secret and not _REFERENCE.fullmatch(str(value)):
        return MASK
    return _masked_address(value) if isinstance(value, str) else value


def _masked_words(path: Sequence[str], values: list[Any]) -> list[Any]:
    """A list; in a command line, what follows an option for a secret is one."""
    found: list[Any] = []
    follows = False
    for value in values:
        word = value if isinstance(value, str) else ""
        name, sign, given = word.partition("=")
        if follows and not _REFERENCE.fullmatch(word):
            found.append(MASK)
        elif sign and given and _is_secret(name.lstrip("-")) and not _REFERENCE.fullmatch(given):
            found.append(f"{name}={MASK}")
        else:
            found.append(_masked(path, value))
        follows = bool(_FLAG.fullmatch(word)) and _is_secret(word.lstrip("-"))
    return found


def _is_secret(name: str) -> bool:
    return looks_secret(name, {}) or _KEY.search(name) is not None


def _masked_address(text: str) -> str:
    """A text, where it is an address without the user, the password and the values of its parameters."""
    address, mark, query = text.partition("?")
    if "://" not in address:
        return text
    return _IN_ADDRESS.sub(f"{MASK}@", address) + mark + (_QUERY.sub(MASK, query) if mark else "")
