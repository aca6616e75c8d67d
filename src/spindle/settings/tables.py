"""The tables at the top of the settings: which there are, and those that the environment sets."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from spindle.domain.toml_text import read_toml
from spindle.errors import ConfigurationError, suggest

RawTable = dict[str, Any]
TOP_LEVEL = (
    "agent", "agents", "at_rest", "auth", "engine", "mods", "registries", "retention", "sampling", "search",
    "secrets", "serve", "sources", "store", "triggers", "up",
)  # fmt: skip

_VARIABLE = re.compile(r"SPINDLE_([A-Z0-9]+(?:_[A-Z0-9]+)*(?:__[A-Z0-9]+(?:_[A-Z0-9]+)*)+|STORE)")


def apply_environment(raw: RawTable, environ: Mapping[str, str]) -> dict[tuple[str, ...], str]:
    """Applies the environment: SPINDLE_SECTION__KEY=value sets section.key. Returns the variables by the path
    of what they set."""
    applied: dict[tuple[str, ...], str] = {}
    for variable, text in sorted(environ.items()):
        match = _VARIABLE.fullmatch(variable)
        if not match:
            continue
        *folders, last = match[1].split("__")
        section = (folders[0] if folders else last).lower()
        if section not in TOP_LEVEL:
            raise ConfigurationError(
                f"the environment variable {variable} sets `{section}`, which is not a setting",
                hint=_did_you_mean(section),
            )
        node, inside = raw, ""
        path: list[str] = []
        for step in folders:
            inside = _existing_key(node, step, inside)
            path.append(inside)
            inner = node.setdefault(inside, {})
            if not isinstance(inner, dict):
                raise ConfigurationError(f"{variable} sets a key inside {inside!r}, which is not a table")
            node = cast(RawTable, inner)
        key = _existing_key(node, last, inside)
        node[key] = _value_of(text)
        applied[(*path, key)] = variable
    return applied


def _existing_key(node: RawTable, step: str, inside: str) -> str:
    """Finds the key that an upper-case variable means, so that a source called `my-Server` can be set."""
    for key in node:
        if key.upper().replace("-", "_") == step:
            return key
    return step if inside == "env" else step.lower()


def _value_of(text: str) -> Any:
    """Parses lists, tables and quoted text as TOML. Anything else stays text, which fields that want a
    number or a boolean convert themselves: a token made of digits must not become a number."""
    if text[:1] not in ("[", "{", '"', "'") or "\n" in text:
        return text
    try:
        return read_toml(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def check_top_level(raw: RawTable, file: Path) -> None:
    """Raises ConfigurationError for a key that is not a setting, or that is not a table and must be one."""
    for key in raw:
        if key not in TOP_LEVEL:
            raise ConfigurationError(f"{file}: `{key}` is not a setting", hint=_did_you_mean(key))
    for key in ("agent", "engine", "registries", "retention", "sampling", "serve", "up"):
        if not isinstance(raw.get(key, {}), dict):
            raise ConfigurationError(f"{file}: `{key}` must be a table: [{key}]")
    for key in ("agents", "mods"):
        given: Any = raw.get(key, {})
        tables = cast(RawTable, given) if isinstance(given, dict) else {"": None}
        for name, table in tables.items():
            if not isinstance(table, dict):
                where = f"{key}.{name}" if name else key
                raise ConfigurationError(
                    f"{file}: `{where}` must be a table such as [{key}.{name or 'NAME'}]"
                )
    if not isinstance(raw.get("store", ""), str):
        raise ConfigurationError(f'{file}: `store` must be text: a path, ":memory:", or "postgresql://…"')


def _did_you_mean(key: str) -> str:
    meant = suggest(key, TOP_LEVEL)
    return f"did you mean `{meant}`?" if meant else f"known are: {', '.join(TOP_LEVEL)}"
