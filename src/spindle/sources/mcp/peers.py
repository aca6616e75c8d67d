"""Passes messages and questions of a server back to the caller that they belong to.

Over HTTP a server's question comes on the stream of the call it belongs to. Over pipes nothing says to
which call it belongs. Where one and the same program made all calls that run, it is asked. Otherwise the
question waits until only one of those is left that may have asked it, since whoever asks does not end before
it is answered: one user's question must never be shown to another, nor end another's call. From then on, a
tool that asks runs on a session where nothing else does. A call is here any request during which a server
may ask: also one for a resource, or for a prompt.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from spindle.domain.levels import LOG_LEVELS
from spindle.errors import ApprovalRequired, InputRequired, RateLimitedError, SpindleError
from spindle.mcp_protocol import models
from spindle.mcp_protocol.errors import McpError
from spindle.mcp_protocol.names import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
)
from spindle.sources.mcp.asking import AskingTools
from spindle.sources.mcp.exchange import current_exchange
from spindle.sources.mcp.questions import (
    MAX_QUESTIONS,
    GivenAnswers,
    check_question,
    only_pauses,
    too_many,
    way_out,
)

if TYPE_CHECKING:
    from types import TracebackType

    from spindle.domain.call import Call
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.peer import Peer
    from spindle.ports.source import ListRoots

logger = logging.getLogger("spindle.mcp")

QUESTIONS = frozenset({"elicitation", "sampling", "roots"})

MAX_REQUESTS = 100
"""Requests that a server may make of the caller during one call: each may cost the answer of a model."""

CAPABILITY = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
"""By a request that servers make, what a client declares that answers it."""


class CallEndedError(McpError):
    """The call during which something was asked has ended."""

    def __init__(self) -> None:
        super().__init__(code=INVALID_REQUEST, message="the request has ended")


class Serving:
    """A call that runs on a session, and the questions that its server asks meanwhile. A class, because a
    generator costs every call more."""

    def __init__(self, peers: Peers, running: dict[str, Serving], call: Call) -> None:
        self.requests = 0
        """The requests other than questions that its server made of the caller."""
        self.unanswered: str | None = None
        """The request of its server that nobody here answers, if it made one."""
        self.others: frozenset[asyncio.Task[Any]] = frozenset()
        """Questions to its client that another call of the same client may have asked."""
        self.was_alone = True
        """False if it ever ran beside another call."""
        self.has_asked = False
        """True if its server asked something during the call, or may have."""
        self._open: frozenset[asyncio.Task[Any]] = frozenset()
        """Those who wait for answers of whoever made the call."""
        self._reason: BaseException | None = None
        self._given: GivenAnswers | None = None
        self._left: asyncio.Event | None = None
        self._count, self._has_ended = 0, False
        self._peers = peers
        self._running = running
        self.call = call
        self._task = asyncio.current_task(peers.loop)
        self._cancelling = self._task.cancelling() if self._task is not None else 0

    def __enter__(self) -> Serving:
        if running := self._running:
            self.was_alone = False
            if len(running) == 1:  # of several, none is alone any more
                next(iter(running.values())).was_alone = False
        running[self.call.key] = self
        return self

    @property
    def is_asked(self) -> bool:
        """True while whoever made the call is asked something."""
        return bool(self._open)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del self._running[self.call.key]
        if self._peers.undecided or self._peers.asking:
            self._peers.ended(self)
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

    async def settle(self) -> None:
        """Waits for the answers that the call's client gives to what another call of its asked: a client that
        has its result is asked nothing more."""
        while self.others:
            await asyncio.wait(self.others)

    async def asked(
        self, peer: Peer, method: str, params: JsonObject | None, *, is_own: bool = True
    ) -> JsonObject:
        """The peer's answer. It is not waited for any more when the call has ended: raises CallEndedError
        then. `is_own`: False if another call of the same client may have asked."""
        task = asyncio.current_task()
        assert task is not None
        before = task.cancelling()
        self._open |= {task}
        if not is_own:
            self.others |= {task}
        try:
            return await peer.ask(method, params)
        except asyncio.CancelledError:
            if not self._has_ended or task.uncancel() > before:
                raise
            # Not let out: the task is one of the SDK's, whose end would close the session for all calls.
            raise CallEndedError from None
        finally:
            self._open -= {task}
            self.others -= {task}


class Peers:
    """The callers of the calls that run on one session."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._running: dict[str, Serving] = {}
        self.loop: asyncio.AbstractEventLoop | None = None  # the session's, so that no call asks for it
        self.asking = AskingTools()
        """The tools of the source that ask something. Set by the source, for all its sessions."""
        self.runs_alone: Callable[[Call], bool] = lambda _: False
        """Says of a call that is known to ask if nothing else should run beside it. Set by the source."""
        self.occupied = 0
        """The questions of such calls that wait for an answer."""
        self._unclear = 0
        """The questions of calls that cannot be told apart, since one ran alone."""
        self.undecided: dict[asyncio.Event, set[Serving]] = {}
        """Of each question that waits until it is clear who asks, the calls that may have."""
        self.list_roots: ListRoots | None = None
        """Asks the client whose session it is for its roots, when none of its calls runs. Set once those have
        changed: a server then wants to know at once."""
        self._principal: str | None = None
        self._is_mixed = False
        """True once several principals have used the session."""

    def serving(self, call: Call) -> Serving:
        if not self._running:
            self._unclear = 0
        if call.principal.id != self._principal:
            self._is_mixed = self._principal is not None
            self._principal = call.principal.id
        return Serving(self, self._running, call)

    def ended(self, serving: Serving) -> None:
        """A call has ended: what waits to know who asks may know it now."""
        for news, candidates in self.undecided.items():
            candidates.discard(serving)
            news.set()
        if serving.was_alone and not serving.has_asked and serving.call.tool in self.asking:
            self.asking.was_quiet(serving.call.tool)

    def current(self) -> Serving | None:
        """The call that the server speaks of; None if that is not certain."""
        exchange = current_exchange.get()
        if exchange is not None and exchange.call is not None:
            return self._running.get(exchange.call.key)
        return next(iter(self._running.values())) if len(self._running) == 1 else None

    def peer(self) -> Peer | None:
        """The caller of the call that the server speaks of, or of all calls that it may speak of."""
        serving = self.current() or self._of_one_program()
        return serving.call.peer if serving is not None else None

    def _of_one_program(self) -> Serving | None:
        """The newest call, if one and the same program made all that run; one that is not asked already, if
        there is such."""
        running = [*self._running.values()]
        owners = [item.call.peer.owner if item.call.peer is not None else None for item in running]
        if not running or any(owner is None or owner != owners[-1] for owner in owners):
            return None
        return next((item for item in reversed(running) if not item.is_asked), running[-1])

    async def _asker(self, method: str) -> Serving | None:
        """The call during which the server asks; None if all that run are of one program, which may be asked
        for any of them. Waits until that is certain. Raises McpError where it cannot be."""
        serving = self.current()
        if serving is not None or not self._running:
            if serving is not None:
                serving.has_asked = True
                self.asking.asked(serving.call.tool, is_certain=True)
            return serving
        candidates = {item for item in self._running.values() if not (item.is_asked and not self._is_mixed)}
        for item in candidates:
            item.has_asked = True
            self.asking.asked(item.call.tool, is_certain=False)
        if self._of_one_program() is not None:
            return None
        news = asyncio.Event()
        self.undecided[news] = candidates
        try:
            while len(candidates) > 1:
                if len(self.undecided) >= len(candidates):
                    # All of them ask.
                    if all(only_pauses(item.call, method) for item in candidates):
                        await self._made_again_alone(candidates)
                        raise CallEndedError
                    # One has to go first.
                    unclear = f"this client cannot tell which of {len(candidates)} calls asks"
                    raise McpError(INVALID_REQUEST, f"{unclear}; the next time each can")
                await news.wait()
                news.clear()
        finally:
            del self.undecided[news]
        if not candidates:
            raise CallEndedError
        return candidates.pop()

    async def _made_again_alone(self, calls: Iterable[Serving]) -> None:
        """Ends calls that would end with a pause and be made again after it: each is made again now, where
        nothing else runs."""
        error = RateLimitedError(
            f"calls of {self._name!r} asked at once, and nothing says which of them asked what",
            hint="make the call again",
            retry_after=0.0,
            sent=False,
        )
        await asyncio.gather(*(item.end(copy.copy(error)) for item in calls))

    def wants_logs(self) -> bool:
        return any(item.call.peer is not None and item.call.peer.log_level for item in self._running.values())

    def log(self, params: JsonObject) -> None:
        """Passes a message of the server on to the caller that it belongs to."""
        level, source, peer = params.get("level"), params.get("logger"), self.peer()
        if self._is_mixed and not _is_told():
            return  # it may be about what another principal did
        if peer is not None and level in LOG_LEVELS and "data" in params:
            peer.log(level, params["data"], source if isinstance(source, str) and source else self._name)

    async def answer(
        self, method: str, version: str, params: JsonObject | None, able: Mapping[str, Any]
    ) -> JsonObject:
        """The answer to a request of the server, by whoever can give one of those that we are able to answer.
        Raises McpError if nobody does."""
        try:
            asked = await models.server_request(method, version, params)
        except KeyError:
            raise McpError(METHOD_NOT_FOUND, "Method not found", method) from None
        except ValidationError as error:
            logger.debug("%s: its %s is not one: %s", self._name, method, error)
            raise McpError(INVALID_PARAMS, f"this is no {method} of version {version}") from None
        if CAPABILITY.get(method) not in able:
            raise McpError(INVALID_REQUEST, f"{method} is not supported")
        return self._checked(method, version, await self._said(method, asked))

    async def _said(self, method: str, asked: JsonObject | None) -> JsonObject:
        if method != "roots/list" or self.list_roots is None:
            return await self._said_in_call(method, asked)
        if self._running:
            with contextlib.suppress(CallEndedError):  # it was not that call which asked
                return await self._said_in_call(method, asked)
        return await self.list_roots()

    async def _said_in_call(self, method: str, asked: JsonObject | None) -> JsonObject:
        serving = await self._asker(method)
        is_alone = serving is not None and not _is_told() and self.runs_alone(serving.call)
        self.occupied += is_alone
        try:
            if method == "elicitation/create":
                return await self._elicit(serving, asked or {})
            return await self._ask(serving, method, asked)
        finally:
            self.occupied -= is_alone

    def _checked(self, method: str, version: str, said: JsonObject) -> JsonObject:
        try:
            return models.checked_answer(method, version, said)
        except ValidationError as error:
            logger.debug("%s: a client's answer to %s is not one: %s", self._name, method, error)
            raise McpError(INTERNAL_ERROR, "the client's answer does not fit the protocol") from None

    async def _elicit(self, serving: Serving | None, params: JsonObject) -> JsonObject:
        peer = self.peer() if serving is None else serving.call.peer
        if serving is None and peer is not None and not peer.comes_back:
            self._unclear += 1
            if self._unclear > MAX_QUESTIONS:
                raise McpError(INVALID_REQUEST, f"more than {MAX_QUESTIONS} questions")
        if serving is None or (peer is not None and peer.comes_back):
            return await self._ask(serving, "elicitation/create", params)
        able = peer if peer is not None and peer.can_answer("elicitation/create") else None
        return await serving.elicit(self._name, params, able)

    async def _ask(self, serving: Serving | None, method: str, params: JsonObject | None) -> JsonObject:
        picked = self._of_one_program() if serving is None else serving
        if serving is not None:
            serving.requests += 1
            if serving.requests > MAX_REQUESTS:
                raise McpError(INVALID_REQUEST, f"more than {MAX_REQUESTS} requests")
        peer = picked.call.peer if picked is not None else None
        if picked is None or peer is None or not peer.can_answer(method):
            if serving is not None:
                serving.unanswered = method
            if method == "sampling/createMessage":
                logger.warning(
                    "%s asked for a language model, and there is none: set `model` in [sampling]", self._name
                )
                raise McpError(INVALID_REQUEST, f"there is no language model to answer {method}")
            unclear = f", as {len(self._running)} calls run" if len(self._running) > 1 else ""
            raise McpError(INVALID_REQUEST, f"this client cannot answer {method}{unclear}")
        try:
            return await picked.asked(peer, method, params, is_own=serving is not None)
        except CallEndedError:
            if serving is not None or not self._running:
                raise
            return await self._ask(None, method, params)  # it was not that call's
        except ApprovalRequired as pause:
            if serving is None:
                unclear = f"as {len(self._running)} calls run, nobody can be asked to approve this"
                raise McpError(INVALID_REQUEST, unclear) from None
            await serving.end(pause)
            raise McpError(INTERNAL_ERROR, "a person has to approve it first") from None
        except (SpindleError, InputRequired) as error:
            # Not the call's: it may be another's that the server speaks of.
            raise McpError(INTERNAL_ERROR, f"the question was not answered: {error.message}") from None


def _is_told() -> bool:
    """True if what a server says came as part of what it answers to a call."""
    exchange = current_exchange.get()
    return exchange is not None and exchange.call is not None
