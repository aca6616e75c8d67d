"""Calls, and other requests, that wait for an answer of a client that cannot be asked while it waits.

A source of the handshake era asks in the middle of a call. A client of 2026-07-28 is told so by a result,
and comes back with the answer in a new request; meanwhile the call goes on waiting here, under a token
that only this client was given.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spindle.domain.identity import Principal
from spindle.domain.json_schema import JsonObject, is_object
from spindle.errors import RateLimitedError
from spindle.mcp_protocol.errors import McpError
from spindle.mcp_protocol.names import INVALID_PARAMS, REQUEST_TIMEOUT
from spindle.serving.quotas import Shares

if TYPE_CHECKING:
    from spindle.mcp_server.inbound import RequestContext

PREFIX = "spindle-call:"
MAX_SUSPENDED = 1000
"""Calls of all clients that wait for an answer."""


@dataclass(slots=True)
class _Question:
    request: JsonObject
    answer: asyncio.Future[JsonObject]


@dataclass(slots=True, eq=False)
class Suspended:
    """One call. `key` is what the client must repeat for it to be the same."""

    principal: Principal
    key: tuple[str, bytes]
    came_back: Callable[[RequestContext], None]
    """Told of the request with which the client comes back."""
    task: asyncio.Task[JsonObject] | None = None
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    questions: dict[str, _Question] = field(default_factory=dict[str, _Question])
    token: str = ""
    """The name under which the call waits at the moment."""
    _count: int = 0

    async def ask(self, method: str, params: JsonObject | None, seconds: float) -> JsonObject:
        """Waits until the client comes back with the answer, but not for ever."""
        self._count += 1
        name = f"question-{self._count}"
        answer: asyncio.Future[JsonObject] = asyncio.get_running_loop().create_future()
        self.questions[name] = _Question({"method": method, "params": params or {}}, answer)
        self.asked.set()
        try:
            async with asyncio.timeout(seconds):
                return await answer
        except TimeoutError:
            raise McpError(code=REQUEST_TIMEOUT, message=f"no answer within {seconds:g} s") from None
        finally:
            del self.questions[name]


class SuspendedCalls:
    """All such calls of a server."""

    def __init__(self, share: Callable[[], int]) -> None:
        """`share` says how many calls of one client may wait."""
        self._share = share
        self._calls: dict[str, Suspended] = {}
        self._shares: Shares[Suspended] = Shares("calls that wait for an answer", MAX_SUSPENDED)

    async def run(self, call: Suspended, work: Coroutine[Any, Any, JsonObject]) -> JsonObject:
        call.task = asyncio.create_task(work)
        return await self._outcome(call)

    def find(self, token: str, principal: Principal, key: tuple[str, bytes]) -> Suspended:
        call = self._calls.pop(token, None)
        if call is None or call.principal != principal or call.key != key:
            if call is not None:
                self._calls[token] = call
            raise McpError(
                code=INVALID_PARAMS,
                message="the call that asked no longer waits, or was another; make it again from the start",
            )
        self._shares.remove(call.principal.id, call)
        return call

    async def go_on(self, call: Suspended, answers: Any) -> JsonObject:
        """Passes the client's answers to the call; missing ones are asked for again."""
        given = answers if is_object(answers) else {}
        for name, question in list(call.questions.items()):
            answer = given.get(name)
            if is_object(answer) and not question.answer.done():
                question.answer.set_result(answer)
        await asyncio.sleep(0)  # what was answered is no question any more
        return await self._outcome(call)

    async def _outcome(self, call: Suspended) -> JsonObject:
        """The result of the call, or what it asks."""
        assert call.task is not None
        if not call.questions:
            call.asked.clear()
            asked = asyncio.create_task(call.asked.wait())
            try:
                await asyncio.wait({call.task, asked}, return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                call.task.cancel()
                raise
            finally:
                asked.cancel()
        if call.task.done() or not call.questions:
            return await call.task
        try:
            displaced = self._shares.add(call.principal.id, call, self._share())
        except RateLimitedError:
            call.task.cancel()
            raise
        if displaced is not None and displaced.task is not None:
            self._calls.pop(displaced.token, None)
            displaced.task.cancel()
        call.token = token = f"{PREFIX}{secrets.token_urlsafe(24)}"
        self._calls[token] = call
        call.task.add_done_callback(lambda _: self._forget(token, call))
        requests = {name: question.request for name, question in call.questions.items()}
        return {"resultType": "input_required", "inputRequests": requests, "requestState": token}

    def _forget(self, token: str, call: Suspended) -> None:
        self._calls.pop(token, None)
        self._shares.remove(call.principal.id, call)

    async def close(self) -> None:
        tasks = [call.task for call in self._calls.values() if call.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
