"""Settings of a command line program."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, field_validator, model_validator

from spindle.domain.json_schema import JsonObject
from spindle.domain.source import SourceConfig, Words
from spindle.sources.parameters import Described, ParameterConfig, check_places, places, whole_place

Output = Literal["text", "lines", "json", "jsonl"]

_LINES: JsonObject = {"type": "array", "items": {"type": "string"}}
_DASHES = re.compile(r"-[^-]|--[^=]+=")
"""The start of a word with dashes before its first place, so that what is filled in can only be a value."""


class CliParameter(ParameterConfig):
    """A parameter, and the words that it becomes on the command line."""

    flag: str | None = None
    """The option that takes the value; without one the value is a positional word."""
    off: str | None = None
    """The flag for false, if the flag for true takes no value."""
    position: int | None = None
    """The place among parameters without a flag; by default they follow in the order of the settings."""
    repeat: bool = False
    """Allows several values: the flag is repeated for each."""
    join: str | None = None
    """Joins several values into one word with this text between them."""
    separate: bool = False
    """Passes flag and value as two words, for a program that does not know `--flag=value`."""
    words: int = Field(default=1, ge=1, le=10)
    """The number of words that the flag takes: with 2 or more, a value is an array of so many."""

    @field_validator("flag", "off")
    @classmethod
    def _is_an_option(cls, value: str | None) -> str | None:
        if value is not None and (not re.match(r"[-+/]", value) or value.strip("-") == ""):
            raise ValueError("a flag begins with a dash, such as --path or -p")
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> CliParameter:
        if self.off is not None and self.type != "boolean":
            raise ValueError("`off` is the word for false, so it goes with type = 'boolean'")
        if self.flag is not None and self.position is not None:
            raise ValueError("give either `flag` or `position`")
        if self.repeat and self.join is not None:
            raise ValueError("give either `repeat` (a flag for each value) or `join` (one word for all)")
        if self.words > 1 and (
            self.flag is None or self.join is not None or self.type in ("array", "boolean")
        ):
            raise ValueError("`words` goes with a `flag` and the type of one word, without `join`")
        return self

    @property
    def is_many(self) -> bool:
        return self.repeat or self.join is not None or self.type == "array"

    @property
    def is_switch(self) -> bool:
        return self.type == "boolean" and (self.flag or self.off) is not None and not self.is_many

    def as_schema(self) -> JsonObject:
        schema = super().as_schema()
        if (not self.is_many and self.words == 1) or self.type == "array":
            return schema
        # With `repeat` and `words`, `type` and the keys beside it describe one of the values.
        outer = {key: schema.pop(key) for key in ("description", "title", "default") if key in schema}
        if self.words > 1:
            schema = {"type": "array", "items": schema, "minItems": self.words, "maxItems": self.words}
        return ({"type": "array", "items": schema} if self.is_many else schema) | outer


class Command(Described):
    """One tool: its words after the program's own, and the handling of its output."""

    args: tuple[str, ...] = ()
    parameters: dict[str, CliParameter] = Field(default_factory=dict[str, CliParameter])
    separator: bool | str = True
    """The word that ends the options: `--`, another one, or none."""
    stdin: str | None = None
    output: Output = "text"
    exit_codes: tuple[int, ...] = (0,)

    @model_validator(mode="after")
    def _fits_together(self) -> Command:
        for word in self.args:
            check_places(word, self.parameters)
            self._check_dashes(word)
        if self.stdin is not None and self.stdin not in self.parameters:
            raise ValueError(f"stdin: {self.stdin!r} is not a parameter")
        placed = [name for word in self.args for name in places(word)]
        if self.stdin in placed:
            raise ValueError(f"{self.stdin!r} goes to stdin and cannot be in `args` too")
        for name in placed:
            if self.parameters[name].position is not None:
                raise ValueError(f"{name!r} has its place in `args`; leave out its `position`")
        return self

    def _check_dashes(self, word: str) -> None:
        found = places(word)
        if not found or not word.startswith("-"):
            return
        before = word[: word.index(f"{{{found[0]}}}")]
        if not _DASHES.match(before):
            raise ValueError(
                f"{word!r} would let a value choose the option; end the option with `=`, or use `flag`"
            )

    @property
    def end_of_options(self) -> str | None:
        if isinstance(self.separator, str):
            return self.separator
        return "--" if self.separator else None

    @property
    def promised(self) -> JsonObject | None:
        """The schema of the result."""
        if self.output_schema is None and self.output == "lines":
            return _LINES
        return self.output_schema

    def standing(self) -> list[str]:
        """The positional parameters that follow all others, in order."""
        placed = {name for word in self.args for name in places(word)} | {self.stdin}
        free = [
            name
            for name, item in self.parameters.items()
            if name not in placed and not (item.flag or item.off)
        ]
        ordered = [name for name in free if self.parameters[name].position is not None]
        ordered.sort(key=lambda name: self.parameters[name].position or 0)
        return ordered + [name for name in free if name not in ordered]

    def flagged(self) -> list[str]:
        """The parameters whose options follow `args`."""
        placed = {whole_place(word) for word in self.args} | {self.stdin}
        inside = {name for word in self.args for name in places(word)}
        return [
            name
            for name, item in self.parameters.items()
            if (item.flag or item.off) and name not in placed | inside
        ]


class CliConfig(SourceConfig):
    """Settings of a source of kind `cli`."""

    kind: Literal["cli"] = "cli"  # pyright: ignore[reportIncompatibleVariableOverride] - frozen
    program: Words
    """The program and the words that all its commands share: a list, or one string split as a shell would."""
    cwd: str | None = None
    commands: dict[str, Command] = Field(min_length=1)

    @field_validator("program")
    @classmethod
    def _is_given(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value or not value[0]:
            raise ValueError("name the program")
        return value
