"""Turns the words after `spindle call TOOL` into the tool's arguments.

--path=x                   flags, typed by the tool's schema (calls/flags.py)
{"path": "x"}              all arguments as JSON; flags win over it
-                          the same JSON from stdin
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spindle.calls.flags import Flags
from spindle.domain.json_schema import JsonObject, Parameter
from spindle.errors import InvalidArgumentsError


@dataclass(slots=True)
class Given:
    """The arguments in the words. `document` is JSON text with arguments, or `-` for stdin."""

    arguments: JsonObject = field(default_factory=dict[str, Any])
    document: str | None = None
    wants_help: bool = False
    wants_json: bool = False


def parse(tool: str, schema: JsonObject, words: Sequence[str]) -> Given:
    """Reads the words with the types of the tool's schema."""
    given = Given()
    flags = Flags(tool, schema)
    others: list[str] = []
    waiting = deque(words)
    while waiting:
        word = waiting.popleft()
        if word == "--":
            others += waiting
            break
        if not word.startswith("--"):
            others.append(word)
        elif word in ("--help", "--json") and flags.find(word[2:]) is None:
            given.wants_help |= word == "--help"
            given.wants_json |= word == "--json"
        else:
            flags.take(word[2:], waiting)
    if others:
        given.document = _document(tool, flags.known, others)
    given.arguments = flags.arguments()
    return given


def _document(tool: str, known: Mapping[str, Parameter], others: list[str]) -> str:
    first = others[0]
    if first == "-" or first.lstrip().startswith(("{", "[")):
        if len(others) == 1:
            return first
        raise InvalidArgumentsError(
            f"{others[1]!r} is one argument too many", hint="give one JSON object, and flags"
        )
    wanted = next((name for name, item in known.items() if item.required), None)
    wanted = wanted or next(iter(known), None)
    hint = f"perhaps --{wanted}={first}" if wanted else f"{tool} takes no arguments"
    raise InvalidArgumentsError(f"{first!r} is neither a flag nor a JSON object", hint=hint)
