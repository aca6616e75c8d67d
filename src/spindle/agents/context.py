"""The room that a conversation may take, and what is left out of it when that is used up.

What is left out is written down as a *cut*, which is applied to the messages in the same way when it is made
and when the run is read from its record: a run that is resumed shows its model what it saw before.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal, Self

from spindle.agents.own_tools import ASK_USER
from spindle.agents.results import READ_MORE, cut
from spindle.calls.framing import unframed, with_data
from spindle.domain.json_schema import JsonObject
from spindle.errors import ConfigurationError, did_you_mean

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelRequestPart, ModelResponse

Compact = Literal["drop", "summarise", "off"]
COMPACT = ("drop", "summarise", "off")

SMALL = 400
"""Characters of an old result that stays: a reference to it would not be much shorter."""
SHORT = 2_000
"""Characters that stay of the newest results when nothing else is left to leave out."""
MOST_LISTED = 40
LONGEST_LISTED = 160
LEFT_OUT = "[Earlier turns of this conversation were left out to make room."


@dataclass(frozen=True, slots=True)
class ContextSettings:
    """Says how long a conversation may become, and what happens then."""

    tokens: int | None = None
    """Tokens of a request, above which older parts are left out. None: four fifths of what the model takes,
    where that is known, and otherwise what the provider accepts."""
    compact: Compact = "drop"
    """`drop`: older results, then older turns, are replaced by references. `summarise`: the model sums up
    older turns. `off`: a conversation that is too long ends the run."""
    keep: int = 4
    """The newest turns, which stay as they are."""
    pin: tuple[str, ...] = ()
    """Patterns of tools whose results always stay."""
    cache: bool = True
    """True: requests are marked so that the provider caches what they have in common, if it takes marks."""

    def __post_init__(self) -> None:
        if self.compact not in COMPACT:
            hint = did_you_mean(str(self.compact), COMPACT, f"it is one of {', '.join(COMPACT)}")
            raise ConfigurationError(f"`compact` cannot be {self.compact!r}", hint=hint)
        for name, value in (("tokens", self.tokens), ("keep", self.keep)):
            if value is not None and value < 1:
                raise ConfigurationError(f"`{name}` of the context must be at least 1, and is {value}")

    def is_pinned(self, tool: str | None) -> bool:
        """True if results of this tool always stay, as the user's answers to questions do."""
        return tool == ASK_USER or any(fnmatchcase(tool or "", pattern) for pattern in self.pin)

    def to_dict(self) -> JsonObject:
        """Returns the settings as JSON."""
        return {**dataclasses.asdict(self), "pin": list(self.pin)}

    @classmethod
    def of(cls, given: ContextSettings | Mapping[str, Any] | None) -> Self:
        """Returns settings as given, or those of a mapping, or the defaults. Raises ConfigurationError."""
        if isinstance(given, cls):
            return given
        values: dict[str, Any] = dict(given) if isinstance(given, Mapping) else {}
        known = [field.name for field in dataclasses.fields(cls)]
        for name in values:
            if name not in known:
                hint = did_you_mean(name, known, f"there are {', '.join(known)}")
                raise ConfigurationError(f"there is no setting {name!r} of the context", hint=hint)
        if isinstance(values.get("pin"), str):
            values["pin"] = [values["pin"]]
        values["pin"] = tuple(values.get("pin", ()))
        return cls(**values)


@dataclass(frozen=True, slots=True)
class Cut:
    """Says what is left out of a conversation."""

    before: int
    """The number of messages that are old. The next one is an answer of the model."""
    turns: bool = False
    """True: old turns are left out. False: only their results are."""
    short: int | None = None
    """Characters that stay of each newer result."""
    summary: str | None = None

    def to_dict(self) -> JsonObject:
        return dataclasses.asdict(self)


def cuts_for(messages: Sequence[ModelMessage], context: ContextSettings) -> Iterator[Cut]:
    """Yields what can be left out, from the least that helps to the most."""
    from pydantic_ai.messages import ModelResponse

    answers = [index for index, item in enumerate(messages) if isinstance(item, ModelResponse)]
    keep = context.keep
    if len(answers) > keep:
        if context.compact != "summarise":
            yield Cut(answers[-keep])
        yield Cut(answers[-keep], turns=True)
    if answers:
        yield Cut(answers[-1], turns=True, short=SHORT)


Pinned = Callable[["ModelRequestPart"], bool]


def without(messages: Sequence[ModelMessage], given: Cut, is_pinned: Pinned) -> list[ModelMessage]:
    """Returns the messages without what is cut. What is pinned stays, whatever its age."""
    from pydantic_ai.messages import ModelRequest, ToolReturnPart

    def shortened(message: ModelMessage, most: int) -> ModelMessage:
        if not isinstance(message, ModelRequest):
            return message
        parts: list[ModelRequestPart] = []
        for part in message.parts:
            if isinstance(part, ToolReturnPart) and not is_pinned(part) and size_of(part) > most:
                part = replace(part, content=_referred(part, 0 if most == SMALL else most))
            parts.append(part)
        return replace(message, parts=parts)

    old = [shortened(message, SMALL) for message in messages[: given.before]]
    new = list(messages[given.before :])
    if given.short is not None:
        new = [shortened(message, given.short) for message in new]
    return [*_without_turns(old, given.summary, is_pinned), *new] if given.turns else [*old, *new]


def _without_turns(old: Sequence[ModelMessage], summary: str | None, is_pinned: Pinned) -> list[ModelMessage]:
    from pydantic_ai.messages import ModelRequest, ModelResponse, SystemPromptPart, ToolReturnPart
    from pydantic_ai.messages import UserPromptPart as Said

    kept: list[ModelMessage] = []
    listed: list[str] = []
    staying: set[str] = set()
    """The ids of calls whose answers stay."""
    left_out = False
    for index, message in enumerate(old):
        if isinstance(message, ModelResponse):
            following = old[index + 1].parts if index + 1 < len(old) else ()
            if any(isinstance(part, ToolReturnPart) and is_pinned(part) for part in following):
                kept.append(message)
                staying = {call.tool_call_id for call in message.tool_calls}
                continue
            left_out = True
            staying.clear()
            listed += _lines(message, following)
            continue
        stays: list[ModelRequestPart] = []
        for part in message.parts:
            if isinstance(part, Said) and isinstance(part.content, str) and part.content.startswith(LEFT_OUT):
                listed = part.content.split("\n")[1:] + listed
                left_out = True
            elif isinstance(part, ToolReturnPart):
                stays += [part] if part.tool_call_id in staying else []
            elif isinstance(part, SystemPromptPart) or is_pinned(part):
                stays.append(part)
            else:
                left_out = True
        if stays and kept and isinstance(last := kept[-1], ModelRequest):
            kept[-1] = replace(last, parts=[*last.parts, *stays])
        elif stays:
            kept.append(ModelRequest(stays))
    if not left_out:
        return kept
    told = Said(_told(listed, summary))
    if kept and isinstance(last := kept[-1], ModelRequest):
        kept[-1] = replace(last, parts=[*last.parts, told])
        return kept
    return [*kept, ModelRequest([told])]


def _told(listed: Sequence[str], summary: str | None) -> str:
    if summary is not None:
        return f"{LEFT_OUT} This is a summary of them:]\n{summary}"
    if not listed:
        return f"{LEFT_OUT}]"
    return "\n".join([f"{LEFT_OUT} In them you made these calls:]", *listed[-MOST_LISTED:]])


def _lines(response: ModelResponse, following: Sequence[Any]) -> Iterator[str]:
    """Yields one line for each call of a turn that is left out."""
    answers: dict[str, Any] = {getattr(part, "tool_call_id", ""): part for part in following}
    for call in response.tool_calls:
        said = f"- {call.tool_name} {call.args_as_json_str()}"
        said = said if len(said) <= LONGEST_LISTED else f"{said[: LONGEST_LISTED - 1]}…"
        reference = _reference(answers.get(call.tool_call_id))
        yield said.replace("\n", " ") + (f" (result: {_readable(reference)})" if reference else "")


def _referred(part: Any, most: int) -> str:
    reference, length = _reference(part), size_of(part)
    if isinstance(part.content, str):
        length = len(unframed(part.content))
        if most and reference:
            return with_data(part.content, lambda data: cut(data, 0, most, reference))
    how = f"; {_readable(reference)}" if reference else ""
    return f"[a result of {length} characters was left out to make room{how}]"


def _readable(reference: str) -> str:
    return f'{READ_MORE}(reference="{reference}", start=0)'


def _reference(part: Any) -> str | None:
    known = getattr(part, "metadata", None)
    return known.get("reference") if isinstance(known, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]


# --- how long it is

CHARACTERS = 3.5
"""Characters of a token, in what tools return: fewer than in prose."""
PICTURE = 5_000
"""Characters that a picture counts for."""


def size_of(part: Any) -> int:
    """Returns the characters that a part of a message has for a model."""
    content = getattr(part, "content", None)
    if isinstance(content, str):
        return len(content)
    if isinstance(content, list | tuple):
        return sum(len(item) if isinstance(item, str) else PICTURE for item in content)  # pyright: ignore[reportUnknownVariableType]
    given = getattr(part, "args", None)
    return len(given if isinstance(given, str) else str(given or content or ""))


def estimated(messages: Sequence[ModelMessage], parameters: Any) -> int:
    """Returns roughly the tokens of a request."""
    characters = sum(size_of(part) for message in messages for part in message.parts)
    for tool in (*parameters.function_tools, *parameters.output_tools):
        characters += len(tool.description or "") + len(str(tool.parameters_json_schema))
    characters += sum(len(part.content) for part in parameters.instruction_parts or ())
    return int(characters / CHARACTERS)
