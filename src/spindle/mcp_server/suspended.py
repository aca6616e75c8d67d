"""Calls, and other requests, that wait for an answer of a client that cannot be asked while it waits.

A source of the handshake era asks in the middle of a call. A client of 2026-07-28 is told so by a result,
and comes back with the answer in a new request; meanwhile the call goes on waiting here, under a token
that only this client was given. The client may come back to another process, which has this one go on. Where
this one is gone, the call is made again, and the questions that were answered before are answered at once;
but not one that may have had effects before it asked, such as a program, which is lost then.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spindle.domain.identity import Principal
from spindle.domain.json_schema import JsonObject, is_object
from spindle.errors import ConnectionFailedError, Interruption, RateLimitedError, SpindleError
from spindle.mcp_protocol.errors import McpError
from spindle.mcp_protocol.names import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    REQUEST_TIMEOUT,
)
from spindle.mcp_server.channel import RequestChannel
from spindle.mcp_server.client_peer import refusal
from spindle.mcp_server.connection import ClientConnection
from spindle.mcp_server.inbound import Inbound, inbound
from spindle.mcp_server.kept_answers import LOST, goes_on_nowhere
from spindle.mcp_server.suspended_state import (
    Answered,
    SuspendedState,
    mark_of_call,
    mark_of_question,
    opened,
)
from spindle.serving.quotas import Shares

if TYPE_CHECKING:
    from spindle.mcp_server.inbound import RequestContext
    from spindle.serving.access import ServingAccess
    from spindle.serving.processes import Processes
    from spindle.serving.relays import Relays, Say

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
    given: Answered = field(default_factory=Answered)
    """Answers to questions that the call asked in a process that is gone, and will ask again."""
    answered: Answered | None = field(default_factory=Answered)
    """All that was asked and answered so far; None if the call must not be begun again."""
    _count: int = 0

    async def ask(self, method: str, params: JsonObject | None, seconds: float) -> JsonObject:
        """Waits until the client comes back with the answer, but not for ever."""
        mark = mark_of_question(method, params)
        known = next((item for item in self.given if item[0] == mark), None)
        if known is not None:
            self.given.remove(known)
            self._note(known)
            return known[1]
        if goes_on_nowhere():
            self.answered = None
        self._count += 1
        name = f"question-{self._count}"
        answer: asyncio.Future[JsonObject] = asyncio.get_running_loop().create_future()
        self.questions[name] = _Question({"method": method, "params": params or {}}, answer)
        self.asked.set()
        try:
            async with asyncio.timeout(seconds):
                said = await answer
            self._note((mark, said))
            return said
        except TimeoutError:
            raise McpError(code=REQUEST_TIMEOUT, message=f"no answer within {seconds:g} s") from None
        finally:
            del self.questions[name]

    def _note(self, answer: tuple[str, JsonObject]) -> None:
        if self.answered is not None:
            self.answered.append(answer)


class SuspendedCalls:
    """All such calls of a server."""

    def __init__(self, access: ServingAccess, processes: Processes, relays: Relays) -> None:
        self._access = access
        self._processes = processes
        self._relays = relays
        self._sealer = processes.sealer
        self._calls: dict[str, Suspended] = {}
        self._shares: Shares[Suspended] = Shares("calls that wait for an answer", MAX_SUSPENDED)
        self._relays.on("go on", self._go_on_for_another)

    async def come_back(
        self,
        state: str,
        ctx: RequestContext,
        principal: Principal,
        key: tuple[str, bytes],
        begin: Callable[[Answered], Coroutine[Any, Any, JsonObject]],
    ) -> JsonObject:
        """Goes on with the call that a client comes back to, in whichever process it waits. `begin` makes it
        again where that is gone, with all answers so far."""
        facts = opened(state, self._sealer, principal)
        if facts is None or facts.key != mark_of_call(key):
            raise _no_longer_waits()
        answers = (ctx.params or {}).get("inputResponses")
        if facts.process == self._processes.id:
            call = self.find(facts.token, principal)
            call.came_back(ctx)
            return await self.go_on(call, answers)
        outcome = await self._elsewhere(facts, ctx, principal)
        if outcome is not None:
            return outcome
        given = facts.given(answers if is_object(answers) else {})
        if given is None:
            raise McpError(INTERNAL_ERROR, LOST)
        if time.time() - facts.at > self._access.config.ask_timeout:
            raise _no_longer_waits()
        return await begin(given)

    async def _elsewhere(
        self, facts: SuspendedState, ctx: RequestContext, principal: Principal
    ) -> JsonObject | None:
        """The outcome of a call that waits in another process; None if that is gone."""
        asked = {
            "token": facts.token,
            "principal": principal.id,
            "groups": sorted(principal.groups),
            "version": ctx.protocol_version,
            "method": ctx.method,
            "params": ctx.params,
        }
        heard = await self._relays.ask(facts.process, "go on", asked)
        if heard is None:
            return None
        try:
            async for said in heard:
                if "result" in said:
                    return said["result"]
                if "error" in said:
                    raise McpError(**said["error"])
                await inbound(ctx).channel.notify(said["method"], said.get("params"))
        except ConnectionFailedError as error:
            raise McpError(code=INTERNAL_ERROR, message=error.message) from None
        finally:
            await heard.aclose()
        raise McpError(code=INTERNAL_ERROR, message="the process that did the work gave no outcome")

    async def _go_on_for_another(self, body: JsonObject, say: Say) -> None:
        principal = Principal(body["principal"], frozenset(body["groups"]))
        params: JsonObject = body["params"] or {}
        meta: JsonObject = params.get("_meta") or {}
        connection = ClientConnection.from_envelope(
            body["version"], meta.get(CLIENT_INFO), meta.get(CLIENT_CAPABILITIES)
        )
        channel = RequestChannel(None, params, say)
        facts = Inbound(connection, principal, channel)
        ctx = _FromElsewhere(body["method"], body["version"], params, meta, facts)
        try:
            call = self.find(body["token"], principal)
            call.came_back(ctx)
            await say({"result": await self.go_on(call, params.get("inputResponses"))})
        except (McpError, SpindleError, Interruption) as error:
            failed = error if isinstance(error, McpError) else refusal(ctx, error)
            await say({"error": {"code": failed.code, "message": failed.message, "data": failed.data}})

    async def run(self, call: Suspended, work: Coroutine[Any, Any, JsonObject]) -> JsonObject:
        call.task = asyncio.create_task(work)
        return await self._outcome(call)

    def find(self, token: str, principal: Principal) -> Suspended:
        call = self._calls.get(token)
        if call is None or call.principal.id != principal.id:
            raise _no_longer_waits()
        del self._calls[token]
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
            displaced = self._shares.add(call.principal.id, call, self._access.config.quotas.suspended)
        except RateLimitedError:
            call.task.cancel()
            raise
        if displaced is not None and displaced.task is not None:
            self._calls.pop(displaced.token, None)
            displaced.task.cancel()
        call.token = token = secrets.token_hex(12)
        self._calls[token] = call
        call.task.add_done_callback(lambda _: self._forget(token, call))
        requests = {name: question.request for name, question in call.questions.items()}
        asked = {name: mark_of_question(item["method"], item["params"]) for name, item in requests.items()}
        mark, now = mark_of_call(call.key), time.time()
        facts = SuspendedState(self._processes.id, token, mark, now, asked, call.answered)
        state = facts.sealed(self._sealer, call.principal)
        return {"resultType": "input_required", "inputRequests": requests, "requestState": state}

    def _forget(self, token: str, call: Suspended) -> None:
        self._calls.pop(token, None)
        self._shares.remove(call.principal.id, call)

    async def close(self) -> None:
        await self._relays.close()
        tasks = [call.task for call in self._calls.values() if call.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _no_longer_waits() -> McpError:
    return McpError(
        code=INVALID_PARAMS,
        message="the call that asked no longer waits, or was another; make it again from the start",
    )


@dataclass(slots=True)
class _FromElsewhere:
    """A request that came to another process, as our handlers see one."""

    method: str
    protocol_version: str
    params: Mapping[str, Any]
    meta: Mapping[str, object]
    request: Inbound

    can_send_request = False

    @property
    def session(self) -> _FromElsewhere:
        return self

    @property
    def client_capabilities(self) -> JsonObject | None:
        return self.request.connection.client_capabilities
