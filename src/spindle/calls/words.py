"""Turns the words after `spindle call TOOL` into the tool's arguments.

--path=x                   flags, typed by the tool's schema (calls/flags.py)
path=x                     the same without dashes
path:='"x"'                a value as JSON
{"path": "x"}              all arguments as JSON; the others win over it
-                          the same JSON from stdin

A flag that the tool does not have and `call` does is an option of `call`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spindle.calls.flags import Flags, load_json, load_object
from spindle.domain.json_schema import JsonObject, Parameter
from spindle.errors import InvalidArgumentsError

TakeOption = Callable[[str, deque[str]], list[str] | None]
"""Takes a word that is an option of the command itself, and its value from the words waiting; None: it is
none."""


@dataclass(slots=True)
class Given:
    """The arguments in the words. `document` is JSON text with arguments, or `-` for stdin."""

    arguments: JsonObject = field(default_factory=dict[str, Any])
    document: str | None = None
    options: list[str] = field(default_factory=list[str])
    """Words for `call` itself."""
    wants_help: bool = False


def parse(tool: str, schema: JsonObject, words: Sequence[str], take_option: TakeOption) -> Given:
    """Reads the words with the types of the tool's schema."""
    given = Given()
    flags = Flags(tool, schema)
    others: list[str] = []
    waiting = deque(words)
    while waiting:
        word = waiting.popleft()
        if word == "--":
            others += [word for word in waiting if not _take_pair(flags, word)]
            break
        if word.startswith("--") and flags.has(word[2:]):
            flags.take(word[2:], waiting)
        elif word == "--help":
            given.wants_help = True
        elif (option := take_option(word, waiting)) is not None:
            given.options += option
        elif word.startswith("--"):
            flags.take(word[2:], waiting)
        elif not _take_pair(flags, word):
            others.append(word)
    if others:
        given.document = _document(tool, flags.known, others)
    given.arguments = flags.arguments()
    return given


def _take_pair(flags: Flags, word: str) -> bool:
    """Takes `name=value` or `name:=json`. False: the word is neither."""
    if word.lstrip().startswith(("{", "[")):
        return False
    name, is_json, text = word.partition(":=")
    if is_json and name and (flags.find(name) is not None or "=" not in name):
        flags.give(name, load_json(text, name))
        return True
    name, equals, _ = word.partition("=")
    if not equals or not name:
        return False
    flags.take(word, deque())
    return True


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


def later_arguments(
    tool: str, schema: JsonObject, words: Sequence[str], options: Mapping[str, bool]
) -> JsonObject:
    """Returns the arguments in words that were typed before the tool was known. `options` has the options of
    the command, and if they take a value."""

    def take(word: str, waiting: deque[str]) -> list[str] | None:
        name, equals, _ = word.partition("=")
        if name not in options:
            return None
        return [word, waiting.popleft()] if options[name] and not equals and waiting else [word]

    given = parse(tool, schema, words, take)
    if given.document is None:
        return given.arguments
    return {**load_object(given.document, "the argument"), **given.arguments}
