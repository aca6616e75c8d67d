"""Answers questions of sources in this process: to a person by a handler, to a model by the one there is."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from spindle.calls.sampling import SAMPLE, CallSampling, Sampling, own_model
from spindle.domain.json_schema import JsonObject
from spindle.errors import ClientError, InputRequired, InvalidArgumentsError, SpindleError
from spindle.threads import in_thread

if TYPE_CHECKING:
    from spindle.domain.call import Host
    from spindle.domain.identity import Principal
    from spindle.domain.peer import Peer
    from spindle.domain.question import OnQuestion, SourceQuestion
    from spindle.domain.source import SourceConfig

ELICIT = "elicitation/create"


@dataclass(frozen=True, slots=True)
class LocalAnswers:
    """Those who answer in this process, if any."""

    on_question: OnQuestion | None
    model: Callable[[Principal], Sampling | None]
    """Returns the model that answers in the calls of a principal who has none of their own."""

    def peer(
        self,
        source: str,
        name: str,
        config: SourceConfig,
        host: Host,
        client: Peer | None,
        *,
        can_pause: bool = True,
    ) -> Peer | None:
        """Returns whoever answers a source during a call of the tool, or a request, of this name: the client
        that made it, with a model of ours if it has none; where no other program made it, those here. None:
        nobody."""
        # As a field, since to ask a model of Pydantic for one that it has not costs more than all else here.
        asked: tuple[str, ...] = vars(config).get("answers", ())
        wants_model = "sampling" in asked
        if client is not None and (not wants_model or client.can_answer(SAMPLE)):
            return client
        own = own_model.get()
        model = (own or self.model(host.principal)) if wants_model else None
        sampling = CallSampling(model, source, name, host) if model is not None else None
        if client is not None:
            return client if sampling is None else ClientWithModel(client, sampling)
        handler = self.on_question if "elicitation" in asked else None
        if sampling is None and handler is None:
            return None
        # One user's question must not be shown to another, nor one agent's answered by another's model.
        owner = id(self), host.principal.id, id(own)
        return LocalPeer(owner, source, name, host.principal, handler, sampling, can_pause=can_pause)


class ClientWithModel:
    """The client that made a call and has no model, with one of ours."""

    has_model = True

    def __init__(self, client: Peer, sampling: CallSampling) -> None:
        self._client = client
        self._sampling = sampling

    @property
    def owner(self) -> object:
        return self._client.owner

    @property
    def holder(self) -> str:
        return self._client.holder

    @property
    def has_session(self) -> bool:
        return self._client.has_session

    def wants_own_session(self, answers: Collection[str]) -> bool:
        return "sampling" in answers or self._client.wants_own_session(answers)

    @property
    def capabilities(self) -> JsonObject:
        return {**self._client.capabilities, "sampling": {}}

    @property
    def log_level(self) -> str | None:
        return self._client.log_level

    def log(self, level: str, data: Any, logger: str | None) -> None:
        self._client.log(level, data, logger)

    @property
    def comes_back(self) -> bool:
        return self._client.comes_back

    def can_answer(self, method: str) -> bool:
        return method == SAMPLE or self._client.can_answer(method)

    async def ask(self, method: str, params: JsonObject | None) -> JsonObject:
        if method == SAMPLE:
            return await self._sampling.answer(params or {})
        return await self._client.ask(method, params)


class LocalPeer:
    """Answers what a source asks during one call, or one request."""

    comes_back = False
    has_model = False
    has_session = False
    log_level = None

    def __init__(
        self,
        owner: object,
        source: str,
        name: str,
        principal: Principal,
        handler: OnQuestion | None,
        sampling: CallSampling | None,
        *,
        can_pause: bool,
    ) -> None:
        self.owner = owner
        self._source = source
        self._name = name
        self._principal = principal
        self._handler = handler
        self._sampling = sampling
        self._can_pause = can_pause

    @property
    def capabilities(self) -> JsonObject:
        found: JsonObject = {}
        if self._can_pause or self._handler is not None:
            # Where no handler answers, a pause does.
            found["elicitation"] = {"form": {}, "url": {}}
        if self._sampling is not None:
            found["sampling"] = {}
        return found

    @property
    def holder(self) -> str:
        return self._principal.holder

    def wants_own_session(self, answers: Collection[str]) -> bool:
        return not self.capabilities.keys().isdisjoint(answers)

    def log(self, level: str, data: Any, logger: str | None) -> None:
        """Drops it: nobody here asked for messages."""

    def can_answer(self, method: str) -> bool:
        if method == SAMPLE:
            return self._sampling is not None
        return method == ELICIT and self._handler is not None

    async def ask(self, method: str, params: JsonObject | None) -> JsonObject:
        if method == SAMPLE and self._sampling is not None:
            return await self._sampling.answer(params or {})
        assert self._handler is not None
        question = question_of(
            self._source, self._name, params or {}, self._principal, can_wait=self._can_pause
        )
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


def question_of(
    source: str, tool: str, params: JsonObject, principal: Principal, *, can_wait: bool
) -> SourceQuestion:
    """Returns the question that the parameters of MCP's `elicitation/create` are."""
    from spindle.domain.question import SourceQuestion

    is_link = params.get("mode") == "url"
    return SourceQuestion(
        str(params.get("message", "")),
        source,
        tool,
        None if is_link else params.get("requestedSchema"),
        str(params.get("url", "")) if is_link else None,
        principal,
        can_wait,
    )


def answered(question: SourceQuestion, answer: Any) -> JsonObject:
    """Returns a handler's answer as MCP has it. Raises InputRequired if it gave none, and
    InvalidArgumentsError if it does not fit the form."""
    from spindle.calls.forms import problems_in
    from spindle.domain.question import Answer

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
