"""Calls of tools whose request begins like an earlier one of their session: from its body to the call, past
all that a head says. Whatever else such a request turns out to be takes the ordinary way."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from spindle.domain import trail
from spindle.domain.bounded import BoundedMap
from spindle.domain.json_schema import JsonObject, from_json, to_json
from spindle.mcp_server.calling import METHOD, failed
from spindle.mcp_server.channel import RequestChannel, cancelled_message
from spindle.mcp_server.exchange import PostExchange, head_of
from spindle.mcp_server.inbound import Inbound
from spindle.mcp_server.sessions import MAX_RUNNING
from spindle.serving.running import end_without_answer
from spindle.telemetry import metrics, tracing
from spindle.timers import Timer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spindle.domain.identity import Principal
    from spindle.domain.tool import ToolSummary
    from spindle.listening.again import RepeatedRequest
    from spindle.listening.response import Response
    from spindle.mcp_server.kept_answers import KeptAnswers
    from spindle.mcp_server.server import CatalogServer
    from spindle.mcp_server.sessions import HttpSession, Sessions
    from spindle.serving.access import Admitted
    from spindle.timers import Timers

_KEYS = {"jsonrpc", "id", "method", "params"}
_PARAMS = {"name", "arguments"}
MAX_KNOWN = 100
"""Tools of which a connection remembers that they can be called."""
WATCH_AFTER = 2.0
"""Seconds after which we begin to look whether the client still waits. Nothing ends when it does not, unlike
elsewhere; and of a thousand clients, most wait for their turn for longer than others take to be answered."""


class DirectCalls:
    """Takes the requests of one session that come over one connection with a known head."""

    def __init__(
        self,
        catalog: CatalogServer,
        sessions: Sessions,
        timers: Timers,
        session: HttpSession,
        admitted: Admitted,
        *,
        takes_stream: bool,
    ) -> None:
        """`admitted` is what the head was let in with."""
        self._catalog = catalog
        self._access = catalog.access
        self._sessions = sessions
        self._timers = timers
        self._session = session
        self._admitted = admitted
        self._takes_stream = takes_stream
        self._head = head_of(session.headers)
        self._listed: object | None = None
        self._tools: BoundedMap[str, ToolSummary] = BoundedMap(MAX_KNOWN)
        """Those that were called, as long as the listing is this one."""

    async def __call__(self, request: RepeatedRequest, body: bytes) -> None:
        access, task = self._access, request.task
        if access.on_request is not None and (looking := access.on_request()) is not None:
            await looking
        client, tool = self._admitted.principal.id, None
        message = _call_in(body)
        if message is not None and access.readmits(self._admitted, len(body)):
            listed = self._catalog.listing.made_at_hand()
            if listed is None:
                await self._catalog.app.catalog.stored_version.number()  # so that tools are at hand
                listed = self._catalog.listing.made_at_hand()
            tool = self._tool(message, listed)
        if message is None or tool is None or not access.begin(client, request.scope, task):
            await request.take_ordinary_way()
            return
        direct = DirectRequest(
            request, self._session, message, self._sessions.kept, takes_stream=self._takes_stream
        )
        try:
            await self._answer(direct, tool)
        except asyncio.CancelledError:
            if not access.running.was_revoked():
                raise
            await direct.turn_away(access.revoked(request.scope))
        finally:
            access.running.end(client, task)

    def _tool(self, message: JsonObject, listed: object | None) -> ToolSummary | None:
        """The tool that is called, if there is nothing unusual about the call. `listed`: the tools as they
        are listed now. What is known of them holds for as long as this and the rules do."""
        session, principal = self._session, self._admitted.principal
        if not self._sessions.used(session, principal) or session.connection.client_params is None:
            return None
        if tracing.active is not None or metrics.active is not None:
            return None
        if message["id"] in session.running or len(session.running) >= MAX_RUNNING:
            return None
        if listed is not self._listed:
            self._listed = listed
            self._tools.clear()
        name = message["params"]["name"]
        tool = self._tools.get(name)
        if tool is None:
            tool = self._catalog.calls.plainly_callable(principal, name)
            if tool is not None and listed is not None:
                self._tools[name] = tool
        return tool

    async def _answer(self, direct: DirectRequest, tool: ToolSummary) -> None:
        session, timers = self._session, self._timers
        session.running[direct.request_id] = direct.task, direct
        timers.start(direct)
        trail.follow(())
        try:
            arguments = direct.params["arguments"]
            result = await self._catalog.calls.call_plainly(direct, session.principal, tool, arguments)
            answer: JsonObject = {"jsonrpc": "2.0", "id": direct.request_id, "result": result}
        except asyncio.CancelledError:
            if not direct.is_cancelled:
                direct.drop()
                raise
            direct.task.uncancel()
            answer = cancelled_message(direct.request_id)
        except Exception as error:  # noqa: BLE001 - the edge: the client gets an answer
            answer = failed(direct.request_id, error)
        finally:
            direct.stop()
            del session.running[direct.request_id]
            session.touch()
        await direct.answer(answer, self._head)


def _call_in(body: bytes) -> JsonObject | None:
    """The call of a tool that a body is; None for one that has more to say than a name and arguments."""
    try:
        message: Any = from_json(body)
    except ValueError:
        return None
    if message.__class__ is not dict or message.keys() != _KEYS or message["method"] != METHOD:
        return None
    params, request_id = message["params"], message["id"]
    if params.__class__ is not dict or params.keys() != _PARAMS or message["jsonrpc"] != "2.0":
        return None
    if params["name"].__class__ is not str or params["arguments"].__class__ is not dict:
        return None
    # Texts that are numbers count as those, elsewhere.
    return message if request_id.__class__ is int else None


class DirectRequest(Timer):
    """One such call, as the handlers see a request: context, facts and channel in one, as most calls need
    none of them. Its channel to the client is made when somebody has something to say to the client before
    the answer, or when the call takes long: it is the timer for that too."""

    __slots__ = (
        "_exchange", "_kept", "_message", "_request", "_session", "can_send_request", "channel_",
        "client_capabilities", "connection", "is_cancelled", "params", "protocol_version", "request_id",
        "task",
    )  # fmt: skip

    method = METHOD
    meta = None

    def __init__(
        self,
        request: RepeatedRequest,
        session: HttpSession,
        message: JsonObject,
        kept: KeptAnswers,
        *,
        takes_stream: bool,
    ) -> None:
        self._seconds = WATCH_AFTER
        self._request = request
        self._session = session
        # Attributes, and no properties, since every call asks for them.
        self.task = request.task
        self.connection = session.connection
        self.protocol_version = session.connection.protocol_version
        self.client_capabilities = session.connection.client_capabilities
        self.can_send_request = takes_stream
        self._message = message
        self._kept = kept
        self._exchange: PostExchange | None = None
        self.channel_: RequestChannel | None = None
        self.is_cancelled = False
        self.params: JsonObject = message["params"]
        self.request_id: int = message["id"]

    # --- the context

    @property
    def request(self) -> DirectRequest:
        return self

    @property
    def session(self) -> DirectRequest:
        return self

    # --- the facts

    pause = None

    @property
    def principal(self) -> Principal:
        return self._session.principal

    @property
    def scope(self) -> Mapping[str, Any]:
        return self._request.scope

    # --- the channel

    @property
    def channel(self) -> RequestChannel:
        if self.channel_ is None:
            exchange = self._made_exchange()
            ask = exchange.ask if self.can_send_request else None
            made = RequestChannel(self.request_id, self.params, exchange.event, ask)
            made.facts = Inbound(self.connection, self.principal, made, self.scope)
            made.is_cancelled = self.is_cancelled
            self.channel_ = made
        return self.channel_

    def cancel(self) -> None:
        self.is_cancelled = True
        if self.channel_ is not None:
            self.channel_.cancel()

    def ring(self) -> None:
        self._made_exchange().ring()

    def _made_exchange(self) -> PostExchange:
        if self._exchange is None:
            cycle: Any = self._request.as_others()
            self._exchange = PostExchange(
                cycle.receive,
                cycle.send,
                streams=self.can_send_request,
                cancels=False,
                headers=self._session.headers,
            )
            self._exchange.keep = partial(self._kept.begin, self._session, self._message)
        return self._exchange

    def drop(self) -> None:
        """Keeps nothing of an answer that will never be complete."""
        if self._exchange is not None and self._exchange.kept is not None:
            self._kept.dropped(self._exchange.kept)

    async def turn_away(self, refusal: Response) -> None:
        """Ends the request without its answer."""
        exchange = self._made_exchange()
        await exchange.stop_watching()
        await end_without_answer(refusal, self.scope, exchange.receive, exchange.send)

    async def answer(self, message: JsonObject, head: bytes) -> None:
        """Sends the answer, after all that was said before it."""
        if self._exchange is None:
            self._request.answer(head, to_json(message))
        else:
            await self._exchange.stop_watching()
            await self._exchange.answer(message)
