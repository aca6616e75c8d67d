"""Passes messages and questions of a server back to the caller that they belong to.

Over HTTP a server's question comes on the stream of the call it belongs to. Over pipes nothing says to
which call it belongs, so there it is passed on only when all calls that run were made by one and the
same program: one user's question must never be shown to another. A call is here any request during which
a server may ask: also one for a resource, or for a prompt.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    CreateMessageRequestParams,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    ListRootsResult,
    LoggingMessageNotificationParams,
    SamplingCapability,
    SamplingToolsCapability,
)
from pydantic import BaseModel, TypeAdapter, ValidationError

from spindle.domain import trail
from spindle.domain.json_schema import is_object
from spindle.errors import ApprovalRequired, InputRequired, SpindleError
from spindle.mcp_imports import MCPError
from spindle.sources.mcp.exchange import current_exchange
from spindle.sources.mcp.questions import (
    MAX_QUESTIONS,
    GivenAnswers,
    check_question,
    dumped,
    too_many,
    way_out,
)

if TYPE_CHECKING:
    from types import TracebackType

    from spindle.domain.call import Call, Peer
    from spindle.domain.json_schema import JsonObject
    from spindle.mcp_imports import ClientRequestContext

logger = logging.getLogger("spindle.mcp")

QUESTIONS = frozenset({"elicitation", "sampling", "roots"})

MAX_REQUESTS = 100
"""Requests that a server may make of the caller during one call: each may cost the answer of a model."""

AnswerT = TypeVar("AnswerT")

_elicited = TypeAdapter(ElicitResult)
_sampled: TypeAdapter[CreateMessageResult | CreateMessageResultWithTools] = TypeAdapter(
    CreateMessageResult | CreateMessageResultWithTools
)


class Serving:
    """A call that runs on a session, and the questions that its server asks meanwhile. A class, because a
    generator costs every call more."""

    def __init__(self, running: dict[str, Serving], call: Call) -> None:
        self._running = running
        self.call = call
        self._task = asyncio.current_task()
        self._cancelling = self._task.cancelling() if self._task is not None else 0
        self._reason: BaseException | None = None
        self._given: GivenAnswers | None = None
        self._count = 0
        self.requests = 0
        """The requests other than questions that its server made of the caller."""
        self.unanswered: str | None = None
        """The request of its server that nobody here answers, if it made one."""
        self._open: set[asyncio.Task[Any]] = set()
        self._has_ended = False
        self._left: asyncio.Event | None = None

    def __enter__(self) -> None:
        self._running[self.call.key] = self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del self._running[self.call.key]
        if self._left is not None:
            self._left.set()
        self._has_ended = True
        for question in self._open:
            question.cancel()  # whoever was asked need not answer any more
        if self.unanswered is not None and isinstance(error, SpindleError) and error.answered:
            error.remedy = error.remedy or way_out(self.unanswered)
        if self._reason is not None and self._task is not None:
            # As asyncio.timeout does: only who was cancelled by nobody else goes on, with our reason.
            only_by_us = self._task.uncancel() <= self._cancelling
            if only_by_us and kind is asyncio.CancelledError:
                raise self._reason from None

    async def end(self, reason: BaseException) -> None:
        """Ends the call with an error, or a pause. Returns when the server has been told."""
        self._left = self._left or asyncio.Event()
        if self._reason is None and self._task is not None:
            self._reason = reason
            self._task.cancel()
        await self._left.wait()

    async def elicit(self, source: str, params: JsonObject, peer: Peer | None) -> JsonObject:
        """The answer to a question. One that nobody gives ends the call, as a pause."""
        if self._given is None:
            self._given = GivenAnswers(self.call)
        given = self._given.take(params)
        if given is not None:
            return given
        self._count += 1
        try:
            if self._count > MAX_QUESTIONS:
                raise too_many(source, self.call.tool)
            check_question(source, params)
            if peer is not None:
                with contextlib.suppress(InputRequired):
                    return await self.asked(peer, "elicitation/create", params)
            raise self._given.pause(self.call, source, params)
        except (SpindleError, InputRequired) as reason:
            # First, so that the server does not go on with the call as if it had been answered.
            await self.end(reason)
            return {"action": "cancel"}

    async def asked(self, peer: Peer, method: str, params: JsonObject | None) -> JsonObject:
        """The peer's answer. It is not waited for any more when the call has ended: raises MCPError then."""
        task = asyncio.current_task()
        assert task is not None
        before = task.cancelling()
        self._open.add(task)
        try:
            return await peer.ask(method, params)
        except asyncio.CancelledError:
            if not self._has_ended or task.uncancel() > before:
                raise
            # Not let out: the task is one of the SDK's, whose end would close the session for all calls.
            raise MCPError(code=INVALID_REQUEST, message="the request has ended") from None
        finally:
            self._open.discard(task)


class Peers:
    """The callers of the calls that run on one session."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._running: dict[str, Serving] = {}
        self._unclear = 0
        """The questions of calls that cannot be told apart, since one ran alone."""

    def serving(self, call: Call) -> Serving:
        if not self._running:
            self._unclear = 0
        return Serving(self._running, call)

    def current(self) -> Serving | None:
        """The call that the server speaks of; None if that is not certain."""
        exchange = current_exchange.get()
        if exchange is not None and exchange.call is not None:
            return self._running.get(exchange.call.key)
        return next(iter(self._running.values())) if len(self._running) == 1 else None

    def peer(self) -> Peer | None:
        """The caller of the call that the server speaks of, or of all calls that it may speak of."""
        serving = self.current()
        if serving is not None:
            return serving.call.peer
        peers = [item.call.peer for item in self._running.values()]
        newest = peers[-1] if peers else None
        if newest is None or any(peer is None or peer.owner != newest.owner for peer in peers):
            return None
        return newest

    def wants_logs(self) -> bool:
        return any(item.call.peer is not None and item.call.peer.log_level for item in self._running.values())

    # --- what the SDK's session calls

    async def log(self, params: LoggingMessageNotificationParams) -> None:
        peer = self.peer()
        if peer is not None:
            peer.log(params.level, params.data, params.logger or self._name)

    async def elicit(
        self, _context: ClientRequestContext, params: ElicitRequestParams
    ) -> ElicitResult | ErrorData:
        serving, peer = self.current(), self.peer()
        if serving is None and peer is not None and not peer.comes_back:
            self._unclear += 1
            if self._unclear > MAX_QUESTIONS:
                return ErrorData(code=INVALID_REQUEST, message=f"more than {MAX_QUESTIONS} questions")
        if serving is None or (peer is not None and peer.comes_back):
            return await self._ask("elicitation/create", params, _elicited)
        able = peer if peer is not None and peer.can_answer("elicitation/create") else None
        try:
            said = await serving.elicit(self._name, dumped(params) or {}, able)
        except MCPError as error:
            return error.error
        return _elicited.validate_python(said, by_name=False)

    async def sample(
        self, _context: ClientRequestContext, params: CreateMessageRequestParams
    ) -> CreateMessageResult | CreateMessageResultWithTools | ErrorData:
        return await self._ask("sampling/createMessage", params, _sampled)

    async def roots(self, _context: ClientRequestContext) -> ListRootsResult | ErrorData:
        return await self._ask("roots/list", None, TypeAdapter(ListRootsResult))

    async def _ask(
        self, method: str, params: BaseModel | None, answer: TypeAdapter[AnswerT]
    ) -> AnswerT | ErrorData:
        serving = self.current()
        if serving is not None:
            serving.requests += 1
            if serving.requests > MAX_REQUESTS:
                return ErrorData(code=INVALID_REQUEST, message=f"more than {MAX_REQUESTS} requests")
        peer = self.peer()
        if peer is None or not peer.can_answer(method):
            if serving is not None:
                serving.unanswered = method
            if method == "sampling/createMessage":
                logger.warning(
                    "%s asked for a language model, and there is none: set `model` in [sampling]", self._name
                )
                return ErrorData(
                    code=INVALID_REQUEST, message=f"there is no language model to answer {method}"
                )
            unclear = f", as {len(self._running)} calls run" if len(self._running) > 1 else ""
            return ErrorData(code=INVALID_REQUEST, message=f"this client cannot answer {method}{unclear}")
        try:
            given = dumped(params)
            said = await (peer.ask(method, given) if serving is None else serving.asked(peer, method, given))
            return answer.validate_python(said, by_name=False)
        except ApprovalRequired as pause:
            if serving is None:
                unclear = f"as {len(self._running)} calls run, nobody can be asked to approve this"
                return ErrorData(code=INVALID_REQUEST, message=unclear)
            await serving.end(pause)
            return ErrorData(code=INTERNAL_ERROR, message="a person has to approve it first")
        except MCPError as error:
            return error.error
        except (SpindleError, InputRequired) as error:
            # Not the call's: it may be another's that the server speaks of.
            return ErrorData(code=INTERNAL_ERROR, message=f"the question was not answered: {error.message}")
        except ValidationError as error:
            logger.debug("%s: a client's answer to %s is not one: %s", self._name, method, error)
            return ErrorData(code=INTERNAL_ERROR, message="the client's answer does not fit the protocol")


def callbacks(peers: Peers, answers: Sequence[str]) -> dict[str, Any]:
    """The arguments of the SDK's session by which it knows who answers; it tells the server of these."""
    found: dict[str, Any] = {"logging_callback": peers.log}
    if "elicitation" in answers:
        found["elicitation_callback"] = peers.elicit
    if "sampling" in answers:
        found["sampling_callback"] = peers.sample
        found["sampling_capabilities"] = SamplingCapability(tools=SamplingToolsCapability())
    if "roots" in answers:
        found["list_roots_callback"] = peers.roots
    return found


def as_sent(params: Mapping[str, Any] | None) -> JsonObject:
    """The parameters of a request as they leave: for the caller of a call, and with the trail so far."""
    narrowed = as_the_caller(params) or {}
    way = trail.current()
    return trail.with_meta(narrowed, way) if way else dict(narrowed)


def as_the_caller(params: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The parameters of a request of 2026-07-28, which says each time what its sender can be asked: that is
    what whoever made the call can be asked, not what we could pass on to others."""
    exchange = current_exchange.get()
    meta = (params or {}).get("_meta")
    if params is None or exchange is None or exchange.call is None or not is_object(meta):
        return params
    ours = meta.get(CLIENT_CAPABILITIES_META_KEY)
    if not is_object(ours):
        return params
    peer = exchange.call.peer
    # Where nobody waits for the answer, a pause does.
    by_pause = {"elicitation": ours.get("elicitation")} if exchange.call.can_pause else {}
    theirs = peer.capabilities if peer is not None else by_pause
    declared = {
        key: theirs.get(key) if key in QUESTIONS else value
        for key, value in ours.items()
        if key not in QUESTIONS or theirs.get(key) is not None
    }
    return {**params, "_meta": {**meta, CLIENT_CAPABILITIES_META_KEY: declared}}
