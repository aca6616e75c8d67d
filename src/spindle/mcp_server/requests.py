"""Requests during which a source may ask the client something: that of a tool, a resource or a prompt."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeGuard

from spindle.calls.requests import Client
from spindle.domain.json_schema import JsonObject, canonical
from spindle.errors import ServerError
from spindle.mcp_server.client_peer import QUESTIONS, Again, ClientPeer, passed_on
from spindle.mcp_server.inbound import RequestContext, is_modern
from spindle.mcp_server.suspended import Suspended, SuspendedCalls
from spindle.mcp_server.suspended_state import PREFIX, Answered

if TYPE_CHECKING:
    from spindle.domain.identity import Principal

COME_BACK = frozenset({"prompts/get", "resources/read"})
"""The requests that a client of 2026-07-28 makes again with its answers, besides calls of tools."""
MAX_ROUNDS = 10
"""The number of times that one call or request may ask its client something."""
_OF_ANSWERS = ("inputResponses", "requestState")

Ask = Callable[["Principal", JsonObject, Client], Awaitable[JsonObject]]
"""Makes the request of its source."""


def may_be_asked(peer: ClientPeer) -> bool:
    """True if the client declared that it answers questions of some kind."""
    return not QUESTIONS.isdisjoint(peer.capabilities)


async def answerable(
    waiting: SuspendedCalls,
    ctx: RequestContext,
    principal: Principal,
    key: tuple[str, bytes],
    peer: ClientPeer,
    work: Callable[[], Coroutine[Any, Any, JsonObject]],
) -> JsonObject:
    """Does the work of a request, or goes on with what the client comes back to. Returns its outcome, or what
    a client of 2026-07-28 has to answer first."""
    params = ctx.params or {}
    state = params.get("requestState")

    async def begin(given: Answered) -> JsonObject:
        peer.suspended = call = Suspended(principal, key, peer.came_back, given=given)
        return await waiting.run(call, work())

    if is_suspended(state):
        return await waiting.come_back(state, ctx, principal, key, begin)
    if not is_modern(ctx) or not may_be_asked(peer):
        return await work()
    return await begin([])


def is_suspended(state: Any) -> TypeGuard[str]:
    """True for the state of a call that waits here or in another process, and not at its source."""
    return isinstance(state, str) and state.startswith(PREFIX)


def for_source(params: JsonObject) -> tuple[Any, Any]:
    """The state and the answers that a client brings back to its source; neither if they are for us."""
    state, answers = params.get("requestState"), params.get("inputResponses")
    return (None, None) if is_suspended(state) else (state, answers)


class ClientRequest:
    """One request for something else than a tool."""

    def __init__(
        self, ctx: RequestContext, principal: Principal, params: JsonObject, peer: ClientPeer, ask: Ask
    ) -> None:
        self._ctx = ctx
        self._principal = principal
        self._params = {name: value for name, value in params.items() if name not in _OF_ANSWERS}
        state, answers = for_source(params)
        given = {"inputResponses": answers, "requestState": state}
        self._answers = {name: value for name, value in given.items() if value is not None}
        self._peer = peer
        self._ask = ask

    @property
    def key(self) -> tuple[str, bytes]:
        """Names the request: the client must repeat all of it when it comes back with answers."""
        said = {name: value for name, value in self._params.items() if name != "_meta"}
        return self._ctx.method, canonical(said) if is_modern(self._ctx) else b""

    async def run(self) -> JsonObject:
        """The result of the source, or what it asks a client that comes back."""
        answers = self._answers or None
        try:
            for _ in range(MAX_ROUNDS):
                result = await self._ask(self._principal, self._params, Client(self._peer, answers))
                if result.get("resultType") != "input_required":
                    return result
                done = await passed_on(self._ctx, self._peer, result)
                if not isinstance(done, Again):
                    return done
                answers = done.answers
            raise ServerError(f"the source asked more than {MAX_ROUNDS} times for further input")
        finally:
            await self._peer.settle()
