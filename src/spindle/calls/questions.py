"""Answers questions of sources in this process: a person's by a handler, a model's by the one configured."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from spindle.calls.forms import problems_in
from spindle.domain.json_schema import JsonObject
from spindle.domain.question import Answer, OnQuestion, SourceQuestion
from spindle.errors import ClientError, InputRequired, InvalidArgumentsError, SpindleError
from spindle.threads import in_thread

if TYPE_CHECKING:
    from spindle.domain.identity import Principal
    from spindle.domain.source import SourceConfig
    from spindle.domain.tool import Tool

ELICIT = "elicitation/create"
SAMPLE = "sampling/createMessage"
MAX_SAMPLES = 10
"""Answers of a model that one call may ask for."""

Sample = Callable[[JsonObject], Awaitable[JsonObject]]
"""A model's answer to the parameters of MCP's `sampling/createMessage`."""


@dataclass(frozen=True, slots=True)
class LocalAnswers:
    """Those who answer in this process, if any."""

    on_question: OnQuestion | None
    sampler: Callable[[], Sample | None]
    """Returns who asks the model, if one is configured."""

    def peer(self, tool: Tool, config: SourceConfig, principal: Principal) -> LocalPeer | None:
        """Returns the peer of a call that no other program made; None if nobody here answers its source."""
        asked: tuple[str, ...] = getattr(config, "answers", ())
        sample = self.sampler() if "sampling" in asked else None
        handler = self.on_question if "elicitation" in asked else None
        if sample is None and handler is None:
            return None
        return LocalPeer(self, tool, principal, handler, sample)


class LocalPeer:
    """Answers what the source of one call asks."""

    comes_back = False
    log_level = None

    def __init__(
        self,
        home: LocalAnswers,
        tool: Tool,
        principal: Principal,
        handler: OnQuestion | None,
        sample: Sample | None,
    ) -> None:
        self._home = home
        self._tool = tool
        self._principal = principal
        self._handler = handler
        self._sample = sample
        self._samples = 0

    @property
    def owner(self) -> object:
        # One user's question must not be shown to another.
        return id(self._home), self._principal.id

    @property
    def capabilities(self) -> JsonObject:
        # Where no handler answers, a pause does.
        found: JsonObject = {"elicitation": {"form": {}, "url": {}}}
        return found if self._sample is None else {**found, "sampling": {}}

    def log(self, level: str, data: Any, logger: str | None) -> None:
        """Drops it: nobody here asked for messages."""

    def can_answer(self, method: str) -> bool:
        return (self._handler if method == ELICIT else self._sample if method == SAMPLE else None) is not None

    async def ask(self, method: str, params: JsonObject | None) -> JsonObject:
        if method == SAMPLE and self._sample is not None:
            self._samples += 1
            if self._samples > MAX_SAMPLES:
                raise ClientError(f"{self._tool.name} asked the model more than {MAX_SAMPLES} times")
            return await self._sample(params or {})
        assert self._handler is not None
        question = question_of(self._tool.source, self._tool.name, params or {}, self._principal)
        try:
            return answered(question, await _handled(self._handler, question))
        except SpindleError:
            raise
        except Exception as error:
            # It is anybody's code, and must not look like a failure of the source.
            raise ClientError(f"the handler of questions failed: {type(error).__name__}: {error}") from error


async def _handled(handler: OnQuestion, question: SourceQuestion) -> Any:
    if inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__):
        return await cast("Awaitable[Any]", handler(question))
    found: Any = await in_thread(lambda: handler(question), f"question of {question.source}")
    return await found if inspect.isawaitable(found) else found


def question_of(source: str, tool: str, params: JsonObject, principal: Principal) -> SourceQuestion:
    """Returns the question that the parameters of MCP's `elicitation/create` are."""
    is_link = params.get("mode") == "url"
    return SourceQuestion(
        str(params.get("message", "")),
        source,
        tool,
        None if is_link else params.get("requestedSchema"),
        str(params.get("url", "")) if is_link else None,
        principal,
    )


def answered(question: SourceQuestion, answer: Any) -> JsonObject:
    """Returns a handler's answer as MCP has it. Raises InputRequired if it gave none, and
    InvalidArgumentsError if it does not fit the form."""
    if answer is None:
        raise InputRequired(question.message, source=question.source, tool=question.tool)
    if not isinstance(answer, Answer):
        if not isinstance(answer, Mapping):
            raise InvalidArgumentsError(
                f"the answer to {question.source!r} is {answer!r}",
                hint="return the values of the form, an Answer, or None",
            )
        answer = Answer("accept", dict(cast("Mapping[str, Any]", answer)))
    if answer.action != "accept":
        return {"action": answer.action}
    if question.schema is None:
        return {"action": "accept"}
    content = answer.content or {}
    problems = problems_in(question.schema, content)
    if problems:
        lines = "; ".join(f"{item['path']}: {item['problem']}" for item in problems)
        raise InvalidArgumentsError(
            f"the answer to {question.source!r} does not fit its form: {lines}", details=problems
        )
    return {"action": "accept", "content": content}
