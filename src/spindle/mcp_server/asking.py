"""A call that needs a person, or that has something to say while it runs: how the client is told.

Clients of the handshake era are asked while the call waits. Those of 2026-07-28 get a result that says
what is wanted, and make the call again with the answers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from mcp.shared.exceptions import MCPError, UrlElicitationRequiredError
from mcp_types import (
    LOG_LEVEL_META_KEY,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    REQUEST_TIMEOUT,
    ElicitRequestURLParams,
)

from spindle.domain.call import Reply, Result, is_as_severe, new_id
from spindle.domain.json_schema import JsonObject, is_object
from spindle.errors import AuthorizationRequired, InputRequired, Interruption
from spindle.mcp_server.convert import error_result
from spindle.mcp_server.inbound import LOG_LEVEL, RequestContext, inbound, is_modern

if TYPE_CHECKING:
    from mcp_types import ClientCapabilities

    from spindle.app import Spindle
    from spindle.mcp_server.suspended import Suspended

logger = logging.getLogger("spindle.serve")

ANSWER = "answer"
"""The name of the one request that a question of ours makes."""
DEFAULT_LEVEL = "info"
QUESTIONS = frozenset({"elicitation", "sampling", "roots"})
"""The capabilities of clients that can be asked something."""


class ClientPeer:
    """The client that made a call, for as long as the call runs."""

    def __init__(self, ctx: RequestContext, ask_timeout: float) -> None:
        self._ctx = ctx
        self._ask_timeout = ask_timeout
        self._connection = inbound(ctx).connection
        self._channel = inbound(ctx).channel
        self._sending: set[asyncio.Task[None]] = set()
        self.suspended: Suspended | None = None
        """Where the client cannot be asked while it waits."""

    def came_back(self, ctx: RequestContext) -> None:
        """The client made the request again, and hears from now on of this one."""
        self._ctx = ctx
        self._channel = inbound(ctx).channel

    @property
    def owner(self) -> object:
        return self._connection

    @property
    def capabilities(self) -> JsonObject:
        declared = self._ctx.session.client_capabilities
        return declared.model_dump(by_alias=True, mode="json", exclude_none=True) if declared else {}

    @property
    def log_level(self) -> str | None:
        if is_modern(self._ctx):
            meta = cast("Mapping[str, Any]", self._ctx.meta or {})
            return meta.get(LOG_LEVEL_META_KEY)
        return self._connection.state.get(LOG_LEVEL, DEFAULT_LEVEL)

    @property
    def wants_progress(self) -> bool:
        params = self._ctx.params or {}
        return "progressToken" in (params.get("_meta") or {})

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        await self._channel.progress(progress, total, message)

    def log(self, level: str, data: Any, logger: str | None) -> None:
        if not is_as_severe(level, self.log_level):
            return
        params: JsonObject = {"level": level, "data": data} | ({"logger": logger} if logger else {})
        task = asyncio.create_task(self._notify("notifications/message", params))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _notify(self, method: str, params: JsonObject) -> None:
        try:
            await self._channel.notify(method, params)
        except Exception as error:  # noqa: BLE001 - a client that is gone hears no messages
            logger.debug("a message was not sent: %r", error)

    async def settle(self) -> None:
        """What was said before the answer is sent before it."""
        if self._sending:
            await asyncio.gather(*self._sending)

    def can_answer(self, method: str) -> bool:
        session = self._ctx.session
        reachable = session.can_send_request or self.suspended is not None
        return reachable and is_capable(session.client_capabilities, method)

    async def ask(self, method: str, params: JsonObject | None) -> JsonObject:
        if self.suspended is not None:
            return await self.suspended.ask(method, params, self._ask_timeout)
        try:
            async with asyncio.timeout(self._ask_timeout):
                return await self._channel.send_raw_request(method, params)
        except TimeoutError:
            raise MCPError(
                code=REQUEST_TIMEOUT, message=f"no answer within {self._ask_timeout:g} s"
            ) from None


def is_capable(capabilities: ClientCapabilities | None, method: str, params: Any = None) -> bool:
    """Whether the client declared that it answers this request."""
    if capabilities is None:
        return False
    match method:
        case "elicitation/create":
            found = capabilities.elicitation
            if found is None:
                return False
            wants_url = is_object(params) and params.get("mode") == "url"
            # Before there were modes, the capability was an empty object and meant forms.
            return found.url is not None if wants_url else found.form is not None or found.url is None
        case "sampling/createMessage":
            return capabilities.sampling is not None
        case "roots/list":
            return capabilities.roots is not None
        case _:
            return False


async def answered(
    app: Spindle, ctx: RequestContext, peer: ClientPeer, asked: Interruption
) -> JsonObject | Reply | Result:
    """What to do about a call that stopped for a person: the JSON to send, the reply with which to make
    the call again, or the result of going on with it."""
    if isinstance(asked, AuthorizationRequired):
        return _consent(ctx, asked)
    requests = _requests(asked)
    capabilities = ctx.session.client_capabilities
    missing = [
        request["method"]
        for request in requests.values()
        if not is_capable(capabilities, request["method"], request.get("params"))
    ]
    if missing and is_modern(ctx) and "requests" in asked.details:
        raise MCPError(
            code=MISSING_REQUIRED_CLIENT_CAPABILITY,
            message=f"{asked.message}, for which the client lacks a capability",
            data={"requiredCapabilities": {_CAPABILITIES[method]: {} for method in missing}},
        )
    if missing or not requests:
        return _cannot_ask(asked)
    if is_modern(ctx):
        wanted: JsonObject = {"resultType": "input_required", "inputRequests": requests}
        return wanted | ({"requestState": asked.state} if asked.state is not None else {})
    if not ctx.session.can_send_request:
        return _cannot_ask(asked)
    answers = {
        key: await peer.ask(request["method"], request.get("params")) for key, request in requests.items()
    }
    if "requests" in asked.details:
        return Reply(answers, state=asked.state)
    return await go_on(app, asked, answers[ANSWER]) or _cannot_ask(asked)


async def go_on(app: Spindle, asked: Interruption, answer: JsonObject) -> Result | None:
    """Go on with a call of ours that stopped, with what the person answered to its elicitation; None
    where it cannot be gone on with. This is where runs and their tokens join."""
    return None


_CAPABILITIES = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}


def _requests(asked: Interruption) -> dict[str, JsonObject]:
    """What the client is asked. A source of MCP says it in the protocol's own terms."""
    given = asked.details.get("requests")
    if is_object(given):
        return given
    schema = asked.details.get("schema")
    if isinstance(asked, InputRequired) and is_object(schema):
        params = {"mode": "form", "message": asked.message, "requestedSchema": schema}
        return {ANSWER: {"method": "elicitation/create", "params": params}}
    return {}


def _consent(ctx: RequestContext, asked: AuthorizationRequired) -> JsonObject:
    params = {"mode": "url", "message": asked.message, "url": asked.url, "elicitationId": new_id()}
    if is_capable(ctx.session.client_capabilities, "elicitation/create", params):
        if is_modern(ctx):
            # Nothing to remember: when the call comes again, consent was given or it was not.
            request = {"method": "elicitation/create", "params": params}
            return {"resultType": "input_required", "inputRequests": {"consent": request}}
        if ctx.protocol_version >= "2025-11-25":
            raise UrlElicitationRequiredError([ElicitRequestURLParams.model_validate(params)], asked.message)
    text = f"{asked.message}\nOpen this link to give consent, then call the tool again: {asked.url}"
    return error_result(text, _about(asked))


def _cannot_ask(asked: Interruption) -> JsonObject:
    token = getattr(asked, "token", None)
    way = f"spindle resume {token}" if token else "spindle call, where a person can be asked"
    text = f"{asked.message}\nA person has to answer first, and this client cannot ask. hint: use `{way}`"
    return error_result(text, _about(asked))


def _about(asked: Interruption) -> JsonObject:
    fields = {"kind": asked.kind, "source": asked.source, "tool": asked.tool, "expires_at": asked.expires_at}
    shown = {key: value for key, value in fields.items() if value is not None}
    return {"io.spindle/pause": {**shown, "details": asked.details}}
