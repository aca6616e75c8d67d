"""A session with an MCP server, whatever carries it."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from spindle.domain.call import Result
from spindle.domain.json_schema import is_object
from spindle.domain.levels import is_as_severe
from spindle.errors import (
    AuthError,
    ClientError,
    ConnectionFailedError,
    ServerError,
    SpindleError,
)
from spindle.mcp_protocol.errors import McpError
from spindle.mcp_protocol.names import (
    HEADER_MISMATCH,
    LOG_LEVEL,
    METHOD_NOT_FOUND,
    ROOTS_CHANGED,
    TOOLS_CHANGED,
)
from spindle.ports.source import RelaySession
from spindle.sources.mcp import tasks
from spindle.sources.mcp.changes import follow_changes
from spindle.sources.mcp.client import AgainstProtocolError, McpClient
from spindle.sources.mcp.convert import against_protocol, describe_failure, plain_result
from spindle.sources.mcp.exchange import CallExchange, current_exchange
from spindle.sources.mcp.lists import LISTS, ToolPages
from spindle.sources.mcp.negotiation import negotiate
from spindle.sources.mcp.peers import Peers
from spindle.sources.mcp.questions import Asked
from spindle.sources.mcp.relay import offers_of, send, watch
from spindle.sources.mcp.rounds import Send, until_done
from spindle.threads import in_turn

if TYPE_CHECKING:
    from spindle.domain.call import Call
    from spindle.domain.identity import Credential
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.tool import Tool, ToolSpec
    from spindle.ports.source import ListRoots, Notice
    from spindle.sources.mcp.config import McpConfig
    from spindle.sources.mcp.dispatcher import Coming, LinkDispatcher, SendOptions


NO_SESSION = -32000
"""The code of errors of servers' own, with which the SDK's examples refuse a session."""


class McpSession(RelaySession):
    """A session with an MCP server, over any transport."""

    def __init__(
        self,
        name: str,
        config: McpConfig,
        client: McpClient,
        place: str,
        peers: Peers,
        tell: Notice,
    ) -> None:
        self._name = name
        self._config = config
        self._client = client
        self._place = place
        self.peers = peers
        self._tell = tell
        self.mark = ""
        """Names all that use the session, in what its server tells of resources."""
        self._log_level: str | None = None
        self._watched: Counter[str] = Counter()
        peers.loop = asyncio.get_running_loop()
        self._lost: asyncio.Future[str] = peers.loop.create_future()

    @property
    def protocol_version(self) -> str | None:
        return self._client.version

    @property
    def instructions(self) -> str | None:
        return self._client.instructions

    @property
    def server(self) -> str | None:
        return self._client.server

    async def discover(self) -> list[ToolSpec]:
        return await self._discover(None)

    async def _discover(self, credential: Credential | None) -> list[ToolSpec]:
        if not self._client.offers("tools") and not self.is_modern:
            return []
        tools = ToolPages(self._name, self._config, self._place, is_modern=self.is_modern)
        cursor: str | None = None
        while True:
            params: JsonObject = {"cursor": cursor} if cursor else {}
            page = await self._list("tools/list", params, credential)
            await in_turn(tools.take, page)
            cursor = page.get("nextCursor")
            if cursor is None:
                self._client.repeated = tools.headers
                return tools.specs

    async def invoke(self, tool: Tool, call: Call) -> Result:
        client, first = self._client, None
        exchange = CallExchange(call.credential, call)
        with self.peers.serving(call) as serving:
            if not client.is_modern and call.peer is not None and client.offers("logging"):
                await self._lower_log_level(call.peer.log_level)
            if call.reply is None and call.answers is None:
                try:
                    coming = self._begun(tool, call, exchange)
                    if coming is None:
                        first = await self._call(tool, call, {})
                    else:
                        raw = await coming
                        first = plain_result(raw)
                        if first is None:
                            first = await self._of_answer(raw, call)
                    if isinstance(first, Result):  # as nearly always: it asks for nothing first
                        if serving.others:
                            await serving.settle()
                        return first
                except McpError as error:
                    first = self._error(error, exchange)
                    if not isinstance(first, (AuthError, ClientError)):
                        raise first from error
                except (AuthError, ClientError) as error:
                    first = error
            send = self._rounds(tool, call, first)
            done = await until_done(self._name, call, send, is_modern=client.is_modern)
        return Result(asked=done.whole) if isinstance(done, Asked) else done

    def _begun(self, tool: Tool, call: Call, exchange: CallExchange) -> Coming | None:
        """Sends a call that carries nothing but its arguments, as nearly all do, if that takes no waiting."""
        if call.meta is not None or call.on_progress is not None or call.idempotency_key is not None:
            return None
        if tool.spec.metadata and tasks.wants_task(tool):
            return None
        if self._client.is_modern and call.peer is not None and call.peer.log_level is not None:
            return None
        params: JsonObject = {"name": tool.spec.remote_name, "arguments": call.arguments}
        return self._client.begin_call(params, exchange)

    async def _of_answer(self, raw: JsonObject, call: Call) -> Result | Asked:
        """The result that is no plain one."""
        task = tasks.task_in(raw)
        read = partial(self._read, raw) if task is None else partial(self._of_task, task, call)
        return await self._exchange(read, call.credential, call)

    def _rounds(self, tool: Tool, call: Call, first: Result | Asked | SpindleError | None) -> Send[Result]:
        """Makes the call again and again. `first` is the outcome of the first time, if it was made."""
        outcomes = [] if first is None else [first]

        async def send(given: JsonObject) -> Result | Asked:
            try:
                if not outcomes:
                    return await self._call(tool, call, given)
                if isinstance(outcome := outcomes.pop(), SpindleError):
                    raise outcome
                return outcome
            except ClientError as error:
                if not (is_object(error.details) and error.details.get("code") == HEADER_MISMATCH):
                    raise
                # The server wants arguments repeated as headers; which ones, only a fresh list tells.
                await self._discover(call.credential)
                return await self._call(tool, call, given)

        return send

    async def _call(self, tool: Tool, call: Call, given: JsonObject) -> Result | Asked:
        # The answers in `given` go as they came: whether they are good is for the server to say.
        if call.reply is not None and (task_id := tasks.waiting_task(call)) is not None:
            return await self._exchange(lambda: self._gone_on_with(task_id, call), call.credential, call)
        params: JsonObject = {"name": tool.spec.remote_name, "arguments": call.arguments, **given}
        if tool.spec.metadata and not self.is_modern and tasks.wants_task(tool):
            params["task"] = {}
        meta: Any = call.key_in("meta")
        if call.meta is not None:
            meta = {**call.meta, **meta}
        if self.is_modern and call.peer is not None and (level := call.peer.log_level) is not None:
            meta[LOG_LEVEL] = level
        if meta:
            params["_meta"] = meta
        options: SendOptions = {} if call.on_progress is None else {"on_progress": call.on_progress}
        exchange = CallExchange(call.credential, call)
        token = current_exchange.set(exchange)
        try:
            raw = await self._client.request("tools/call", params, options)
            plain = plain_result(raw)
            return plain if plain is not None else await self._of_answer(raw, call)
        except McpError as error:
            raise self._error(error, exchange) from error
        except ValidationError as error:
            raise against_protocol(self._name, error) from None
        finally:
            current_exchange.reset(token)

    async def _read(self, raw: JsonObject) -> Result | Asked:
        return (await _results()).read_answer(raw, self._client.spoken)

    async def _gone_on_with(self, task_id: str, call: Call) -> Result | Asked:
        """The result of a task that waited for a person's answer."""
        ask = partial(send, self._client)
        return await self._of_task(await tasks.answered(ask, call, task_id), call)

    async def _of_task(self, task: JsonObject, call: Call) -> Result | Asked:
        ask = partial(send, self._client)
        raw = await tasks.result_of(ask, self._name, call, task, is_modern=self.is_modern)
        return await self._read({"resultType": "complete", **raw} if self.is_modern else raw)

    async def _lower_log_level(self, level: str | None) -> None:
        """Sets the log level of older servers, which keep one for the session: that of the caller who
        wants to see the most."""
        if level is None:
            return
        if self._log_level is None or (is_as_severe(self._log_level, level) and level != self._log_level):
            self._log_level = level
            await self._exchange(lambda: send(self._client, "logging/setLevel", {"level": level}))

    @property
    def offers(self) -> frozenset[str]:
        return offers_of(self._client)

    async def relay(self, method: str, call: Call) -> JsonObject:
        if method in LISTS:
            return await self._list(method, call.arguments, call.credential)
        with self.peers.serving(call) as serving:
            done = await until_done(
                self._name, call, lambda given: self._relay(method, call, given), is_modern=self.is_modern
            )
            await serving.settle()
        return done.whole if isinstance(done, Asked) else done

    async def _relay(self, method: str, call: Call, given: JsonObject) -> JsonObject | Asked:
        async def sent() -> JsonObject | Asked:
            answer = await send(self._client, method, {**call.arguments, **given})
            asks = self.is_modern and answer.get("resultType") == "input_required"
            return (await _results()).read_asked(answer) if asks else answer

        return await self._exchange(sent, call.credential, call)

    async def _list(self, method: str, params: JsonObject, credential: Credential | None) -> JsonObject:
        """A page of a list, its items as they came: one that is wrong costs itself, when it is read."""
        page = await self._exchange(lambda: self._client.request(method, params), credential)
        cursor = page.get("nextCursor")
        if cursor is not None and not isinstance(cursor, str):
            raise ServerError(
                f"{self._name!r} answered against the protocol: nextCursor is no text",
                hint="tell the author of the server",
            )
        return page

    def audience(self, credential: Credential) -> str:
        # Where one session shows every caller's own credential, it hears what is meant for each of them.
        return credential.key if self.per_call_credentials else self.mark

    async def watch(
        self, uri: str, credential: Credential, on_ready: Callable[[], None] | None = None
    ) -> None:
        own = partial(self._tell, whose=self.audience(credential))
        watching = asyncio.ensure_future(
            self._exchange(lambda: watch(self._client, uri, own, self._watched, on_ready), credential)
        )
        try:
            await asyncio.wait({watching, self._lost}, return_when=asyncio.FIRST_COMPLETED)
            if watching.done():
                return await watching
            raise ConnectionFailedError(f"lost {self._name!r}: {self._lost.result()}")
        finally:
            watching.cancel()

    async def roots_changed(self, list_roots: ListRoots) -> None:
        if "roots" in self._config.answers and not self.is_modern:
            self.peers.list_roots = list_roots
            await self._exchange(lambda: self._client.notify(ROOTS_CHANGED))

    @property
    def is_occupied(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride] - read only
        return self.peers.occupied > 0

    @property
    def is_stateless(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride] - read only
        return self._client.is_modern

    async def wait_closed(self) -> str:
        return await asyncio.shield(self._lost)

    def lose(self, reason: str) -> None:
        if not self._lost.done():
            self.is_lost = True
            self._lost.set_result(reason)

    @property
    def is_modern(self) -> bool:
        return self._client.is_modern

    async def _exchange(
        self,
        send: Callable[[], Any],
        credential: Credential | None = None,
        call: Call | None = None,
    ) -> Any:
        """Sends one request, and turns every failure into one of our errors."""
        exchange = CallExchange(credential, call)
        token = current_exchange.set(exchange)
        try:
            return await send()
        except McpError as error:
            raise self._error(error, exchange) from error
        except ValidationError as error:
            raise against_protocol(self._name, error) from None
        finally:
            current_exchange.reset(token)

    def _error(self, error: McpError, exchange: CallExchange) -> SpindleError:
        if not self.is_modern and _is_forgotten(error, exchange):
            # The server restarted and knows nothing of this session: nothing was done, and a new one helps.
            return ConnectionFailedError(f"{self._name!r} no longer knows the session", sent=False)
        failure = describe_failure(self._name, error, exchange)
        if self.is_modern and isinstance(failure, ClientError) and "no back-channel" in failure.message:
            # The words of the SDK, and ours: its code is that of many errors.
            way = f'set `protocol = "handshake"` in [sources.{self._name}]'
            failure.hint = f"it asks as older servers do: {way}"
        return failure


def _is_forgotten(error: McpError, exchange: CallExchange) -> bool:
    """True if a server does not know the session. The protocol says 404; servers made after the examples of
    an SDK say 400, and name the session."""
    if exchange.status == 404:
        return error.code != METHOD_NOT_FOUND
    return exchange.status == 400 and error.code == NO_SESSION and "session" in error.message.lower()


async def _results() -> Any:
    """The reader of other results than plain ones. It takes half a second to load, and others use the event
    loop."""
    return await asyncio.to_thread(importlib.import_module, "spindle.sources.mcp.results")


@contextlib.asynccontextmanager
async def open_session(
    name: str,
    config: McpConfig,
    place: str,
    dispatcher: LinkDispatcher,
    on_change: Callable[[], None],
    tell: Notice,
    *,
    handshake_only: bool = False,
) -> AsyncGenerator[McpSession]:
    """Agree on a protocol version over a dispatcher, and follow changes of the tool list."""

    def noticed(method: str, params: JsonObject) -> None:
        if method == TOOLS_CHANGED:
            on_change()
        else:
            tell(method, params)

    peers = Peers(name)
    dispatcher.heeds_logs = peers.wants_logs
    client = McpClient(dispatcher, peers, config.answers, noticed)
    dispatcher.listen(client)
    try:
        session = McpSession(name, config, client, place, peers, tell)
        exchange = CallExchange()
        token = current_exchange.set(exchange)
        try:
            protocol = "handshake" if handshake_only else config.protocol
            await negotiate(client, protocol, patience=config.connect_timeout / 3)
        except McpError as error:
            raise describe_failure(name, error, exchange) from error
        except AgainstProtocolError as error:
            raise ServerError(f"{name!r} does not speak a known version of MCP: {error}") from None
        finally:
            current_exchange.reset(token)
        follower = asyncio.create_task(follow_changes(client, on_change, tell))
        try:
            yield session
        finally:
            follower.cancel()
            await asyncio.gather(follower, return_exceptions=True)
    finally:
        dispatcher.close()
