"""A question that a source asks in the middle of a call or another request, and its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from spindle.domain.identity import LOCAL, Principal
from spindle.domain.json_schema import JsonObject


@dataclass(frozen=True, slots=True)
class SourceQuestion:
    """A question to the person for whom a call is made: to fill in a form, or to visit a page. All texts are
    the source's, not Spindle's."""

    message: str
    source: str
    tool: str
    """The tool that is called, or the request that is made, such as `notes.resources/read`."""
    schema: JsonObject | None = None
    """Of the form, as JSON Schema: an object with plain values."""
    url: str | None = None
    """The page to visit, where the question is no form."""
    principal: Principal = LOCAL
    can_wait: bool = True
    """False where None is no answer: what is no call of a tool cannot pause."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a question of a source: the form's values, or that the person declines, or gives no
    answer (`cancel`)."""

    action: Literal["accept", "decline", "cancel"]
    content: JsonObject | None = None


Answered = Answer | Mapping[str, Any] | None
"""A handler's answer: an `Answer`, or the values of the form alone; None leaves it to a pause, or
ends what cannot pause."""


class OnQuestion(Protocol):
    """Answers questions of sources: a function of the program. A plain one may block, as it is called in a
    thread."""

    def __call__(self, question: SourceQuestion, /) -> Awaitable[Answered] | Answered:
        """Returns the answer, or an awaitable of it."""
        ...
