"""Turns arguments into the words of a command line, so that no value can become an option.

A value of `--flag` is part of its word (`--flag=value`), a value of `-f` that begins with a dash is glued to
it (`-f-1`), values without a flag follow the word that ends the options; and where a program knows none of
these, a value that begins with a dash is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from spindle.domain.json_schema import JsonObject
from spindle.errors import InvalidArgumentsError
from spindle.sources.parameters import as_text, filled_text, places, whole_place, with_defaults

if TYPE_CHECKING:
    from spindle.sources.cli.config import CliParameter, Command

_SHORT = re.compile(r"-[^-]")


def words(command: Command, arguments: JsonObject) -> list[str]:
    """The words that follow the program on its command line."""
    given = {
        name: value
        for name, value in with_defaults(command.parameters, arguments).items()
        if value is not None
    }
    _refuse_nul({name: value for name, value in given.items() if name != command.stdin})
    end = command.end_of_options
    before: list[str] = []
    for template in command.args:
        before += _placed(command, template, given, after_end=end is not None and end in before)
    flags = [
        word
        for name in command.flagged()
        if name in given
        for word in _option(name, command.parameters[name], given[name])
    ]
    standing = [
        word
        for name in command.standing()
        if name in given
        for word in _values(name, command.parameters[name], given[name])
    ]
    if end is not None and end in before:
        # The command's own words end the options, so our options must come before that.
        at = before.index(end)
        return [*before[:at], *flags, *before[at:], *standing]
    if not standing:
        return before + flags
    if end is None:
        for word in standing:
            _refuse_dash(word, "the program is said to have no word that ends its options (`separator`)")
        return [*before, *flags, *standing]
    return [*before, *flags, end, *standing]


def stdin_of(command: Command, arguments: JsonObject) -> bytes | None:
    """The program's input: text as it is, anything else as JSON."""
    if command.stdin is None:
        return None
    value = with_defaults(command.parameters, arguments).get(command.stdin)
    return as_text(value).encode("utf-8", "surrogatepass") if value is not None else None


def _placed(command: Command, template: str, given: JsonObject, *, after_end: bool) -> Sequence[str]:
    """The words that a word of `args` stands for."""
    name = whole_place(template)
    if name is not None:
        parameter = command.parameters[name]
        if name not in given:
            return ()
        if parameter.flag or parameter.off:
            return list(_option(name, parameter, given[name]))
        found = list(_values(name, parameter, given[name]))
    else:
        text = filled_text(template, given)
        found = [] if text is None else [text]
        if text is not None and places(template) and _SHORT.fullmatch(text):
            # `-f` alone would take the next word as its value, even the one that ends the options.
            raise InvalidArgumentsError(
                f"{', '.join(places(template))}: must not be empty after {text}",
                details=[{"path": places(template)[0], "problem": "is empty"}],
                sent=False,
            )
    begins_with_a_value = bool(places(template)) and template.startswith("{")
    if begins_with_a_value and not after_end:
        for word in found:
            _refuse_dash(word, "the program may take it for an option")
    return found


def _option(name: str, parameter: CliParameter, value: Any) -> Iterator[str]:
    if parameter.is_switch:
        word = parameter.flag if value else parameter.off
        if word is not None:
            yield word
        return
    flag = parameter.flag
    assert flag is not None, "only a switch may do without"
    if parameter.words > 1:
        for group in value if parameter.repeat else (value,):
            texts = [as_text(item) for item in group]
            for text in texts:
                _refuse_dash(text, f"the program takes the values of {flag} as words of their own")
            yield from (flag, *texts)
        return
    for text in _values(name, parameter, value):
        if flag.startswith("--") and not parameter.separate:
            yield f"{flag}={text}"
        elif text.startswith("-") and _SHORT.fullmatch(flag) and not parameter.separate:
            yield flag + text
        else:
            _refuse_dash(text, f"the program takes the value of {flag} as a word of its own")
            yield from (flag, text)


def _values(name: str, parameter: CliParameter, value: Any) -> Iterator[str]:
    if not isinstance(value, (list, tuple)) or not parameter.is_many:
        yield as_text(value)
        return
    texts = [as_text(item) for item in cast("Sequence[Any]", value)]
    if parameter.join is None:
        yield from texts
        return
    for text in texts:
        if parameter.join in text:
            raise InvalidArgumentsError(
                f"{name}: {text!r} holds {parameter.join!r}, which separates values",
                details=[{"path": name, "problem": f"holds {parameter.join!r}"}],
                sent=False,
            )
    if texts:
        yield parameter.join.join(texts)


def _refuse_dash(word: str, reason: str) -> None:
    if word.startswith("-"):
        raise InvalidArgumentsError(
            f"{word!r} begins with a dash, and {reason}",
            hint="a path can be written as ./-name",
            details=[{"path": "arguments", "problem": f"{word!r} begins with a dash"}],
            sent=False,
        )


def _refuse_nul(given: JsonObject) -> None:
    for name, value in given.items():
        if any("\0" in text for text in _inner_texts(value)):
            raise InvalidArgumentsError(
                f"{name}: a zero byte cannot be passed to a program",
                details=[{"path": name, "problem": "holds a zero byte"}],
                sent=False,
            )


def _inner_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in cast("Sequence[Any]", value):
            yield from _inner_texts(item)
