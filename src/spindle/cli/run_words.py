"""The words after `spindle run FLOW`: values for the flow by name, and options of `run` itself.

A user types flags and need not know whose they are: one that names an input of the flow is data, one that
names a parameter of its nodes overrides it, and any other is an option of `run`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from spindle.calls.flags import Flags, load_object
from spindle.cli.errors import UsageMistakeError
from spindle.cli.later_options import options_of, take_option
from spindle.errors import InvalidArgumentsError
from spindle.flows.inputs import InputNames, unknown_name
from spindle.flows.templates import is_template

if TYPE_CHECKING:
    from spindle.domain.json_schema import JsonObject


@dataclass(slots=True)
class RunWords:
    """The words after the flow, sorted by whom they are for."""

    values: JsonObject = field(default_factory=dict[str, Any])
    """Values by the name of an input or parameter."""
    options: list[str] = field(default_factory=list[str])
    """Words for `run` itself."""
    own: list[str] = field(default_factory=list[str])
    """All other words, as they were typed."""
    wants_help: bool = False


def read_words(words: Sequence[str], flow: str, names: InputNames, command: click.Command) -> RunWords:
    """Sorts the words after the flow. Raises an error for one that nothing takes."""
    found = RunWords()
    flags = Flags(flow, names.schema, is_template)
    options = options_of(command)
    waiting = deque(words)
    while waiting:
        before = len(waiting)
        word = waiting.popleft()
        name, _, _ = word.removeprefix("--").partition("=")
        if word == ">>":
            raise UsageMistakeError(
                "unexpected `>>` outside of the pipe", 'put the whole pipe in quotes: "a --x=1 >> b"'
            )
        if word.startswith("--") and flags.has(word[2:]):
            flags.take(word[2:], waiting)
        elif word == "--help":
            found.wants_help = True
            continue
        elif (option := options.get(word.partition("=")[0])) is not None:
            found.options += take_option(option, word, waiting, "the flow")
            continue
        elif word.startswith("-") and word != "-":
            raise unknown_name(name, names, flow, tuple(key[2:] for key in options if key.startswith("--")))
        elif word.lstrip().startswith("{"):
            found.values.update(_known(load_object(word, "the argument"), names, flow))
        else:
            raise InvalidArgumentsError(
                f"{word!r} is neither a flag nor a JSON object", hint=_perhaps(word, names, flow)
            )
        used = before - len(waiting)
        found.own += list(words)[len(words) - before : len(words) - before + used]
    found.values.update(flags.arguments())
    return found


def read_params(given: Sequence[str], flow: str, names: InputNames) -> JsonObject:
    """Returns the values of `--param NAME=VALUE`, typed by the tools' schemas."""
    flags = Flags(flow, {"type": "object", "properties": dict(names.params)}, is_template)
    for text in given:
        name, equals, _ = text.partition("=")
        if not equals:
            raise UsageMistakeError(f"--param {text}: a value is missing", f"--param {name}=VALUE")
        if flags.find(name) is None:
            raise unknown_name(name, InputNames({}, names.params), flow)
        flags.take(text, deque())
    return flags.arguments()


def _known(given: JsonObject, names: InputNames, flow: str) -> JsonObject:
    for name in given:
        if name not in names.inputs and name not in names.params:
            raise unknown_name(name, names, flow)
    return given


def _perhaps(word: str, names: InputNames, flow: str) -> str:
    wanted = [*sorted(names.required), *names.inputs, *(name for name in names.params if "." not in name)]
    return f"perhaps --{wanted[0]}={word}" if wanted else f"{flow} takes nothing"
