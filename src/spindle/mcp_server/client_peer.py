"""The client of a call that needs a person or reports while it runs.

Clients of the handshake era are asked while the call waits. Those of 2026-07-28 get a result that says
what is wanted, and make the call again with the answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from spindle.calls.sampling import answered_by, of_client
from spindle.domain.call import new_id
from spindle.domain.json_schema import JsonObject, is_object, to_json
from spindle.domain.levels import is_as_severe
from spindle.domain.passing import passed
from spindle.domain.trail import LOOP_KEY
from spindle.domain.visible import visible
from spindle.errors import (
    AuthorizationRequired,
    ClientError,
    Interruption,
    LoopError,
    NotFoundError,
    SpindleError,
)
from spindle.mcp_protocol.errors import McpError
from spindle.mcp_protocol.names import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    REQUEST_TIMEOUT,
    URL_ELICITATION_REQUIRED,
)
from spindle.mcp_protocol.names import LOG_LEVEL as LOG_LEVEL_META_KEY
from spindle.mcp_server.convert import error_result, is_of_server
from spindle.mcp_server.inbound import (
    KEPT,
    LOG_LEVEL,
    Channel,
    RequestContext,
    holder_of,
    inbound,
    is_capable,
    is_modern,
)
from spindle.mcp_server.kept_answers import NOWHERE, going_on_from

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.runs.outcomes import OpenPause, Outcome
    from spindle.serving.access import ServingAccess

logger = logging.getLogger("spindle.serve")

ANSWER = "answer"
"""The name of the one request that a question of ours makes."""
PAUSE_PREFIX = "spindle-pause:"
"""Begins the state that a client of 2026-07-28 sends back to a run that waits for it."""
DEFAULT_LEVEL = "info"
RESOURCE_NOT_FOUND = -32002
"""Until 2026-07-28, which has invalid parameters for it."""
MAX_UNSENT = 1000
"""Messages of a call that wait for a client to read them. More are dropped."""
QUESTIONS = frozenset({"elicitation", "sampling", "roots"})
"""The capabilities of clients that can be asked something."""


class ComesBack(Protocol):
    """A call whose client comes back with its answers."""

    @property
    def questions(self) -> Mapping[str, object]: ...
    async def ask(self, method: str, params: JsonObject | None, seconds: float) -> JsonObject: ...


class ClientPeer:
    """The client that made a call, for as long as the call runs."""

    has_model = False

    def __init__(self, ctx: RequestContext, access: ServingAccess) -> None:
        self.comes_back, self._has_left = True, False
        self.suspended: ComesBack | None = None
        """Set if the client cannot be asked while it waits."""
        self.goes_on: str | None = None
        """As `going_on_from` says. Here, and not with the work: what a source asks comes by its session,
        which others may have opened."""
        self._ctx, self._session, self._access = ctx, ctx.session, access
        self._connection = inbound(ctx).connection
        self.sending: set[asyncio.Task[None]] = set()
        """Messages that are not sent yet."""

    def came_back(self, ctx: RequestContext) -> None:
        """The client made the request again, and hears from now on of this one."""
        self._ctx, self._session = ctx, ctx.session

    @property
    def _channel(self) -> Channel:
        return inbound(self._ctx).channel

    @property
    def holder(self) -> str:
        return holder_of(self._connection, inbound(self._ctx).principal)

    owner = holder

    @property
    def has_session(self) -> bool:
        return not is_modern(self._ctx)

    def wants_own_session(self, answers: Collection[str]) -> bool:
        said, state = self._session.client_capabilities, self._connection.state
        if said:
            for name in answers:
                if said.get(name) is not None:
                    return True
        return bool(state.keys() & KEPT) if state else is_modern(self._ctx) and self.log_level is not None

    @property
    def capabilities(self) -> JsonObject:
        return self._session.client_capabilities or {}

    @property
    def log_level(self) -> str | None:
        if is_modern(self._ctx):
            meta = cast("Mapping[str, Any]", self._ctx.meta or {})
            return meta.get(LOG_LEVEL_META_KEY)
        return self._connection.state.get(LOG_LEVEL, DEFAULT_LEVEL)

    @property
    def meta(self) -> JsonObject | None:
        """The part of its `_meta` that is for the source of the call."""
        params = self._ctx.params or {}
        return passed(params["_meta"]) if "_meta" in params else None

    @property
    def wants_progress(self) -> bool:
        params = self._ctx.params or {}
        return "_meta" in params and "progressToken" in (params["_meta"] or {})

    def leave(self) -> None:
        """The client no longer waits: it hears nothing more, and what it would be asked becomes a pause."""
        self.comes_back = False
        self._has_left = True

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        if not self._has_left:
            await self._channel.progress(progress, total, message)

    def log(self, level: str, data: Any, logger: str | None) -> None:
        if self._has_left or not is_as_severe(level, self.log_level) or len(self.sending) >= MAX_UNSENT:
            return  # a client that does not read misses messages, and nothing waits for it
        params: JsonObject = {"level": level, "data": data} | ({"logger": logger} if logger else {})
        task = asyncio.create_task(self._notify("notifications/message", params))
        self.sending.add(task)
        task.add_done_callback(self.sending.discard)

    async def _notify(self, method: str, params: JsonObject) -> None:
        try:
            await self._channel.notify(method, params)
        except Exception as error:  # noqa: BLE001 - a client that is gone hears no messages
            logger.debug("a message was not sent: %r", error)

    async def settle(self) -> None:
        """Waits until all earlier messages are sent, so that the answer comes after them."""
        if self.sending:
            await asyncio.gather(*self.sending)

    def can_answer(self, method: str) -> bool:
        if self._has_left:
            return False
        session, is_suspended = self._session, self.suspended is not None
        return (session.can_send_request or is_suspended) and is_capable(session.client_capabilities, method)

    async def ask(self, method: str, params: JsonObject | None) -> JsonObject:
        seconds = self._access.config.ask_timeout
        with going_on_from(self.goes_on):
            if self.suspended is not None:
                return await self.suspended.ask(method, params, seconds)
            try:
                async with asyncio.timeout(seconds):
                    return await self._channel.send_raw_request(method, params)
            except TimeoutError:
                raise McpError(REQUEST_TIMEOUT, f"no answer within {seconds:g} s") from None


@dataclass(frozen=True, slots=True)
class Again:
    """Make the call again, with these answers for its source."""

    answers: JsonObject


async def passed_on(ctx: RequestContext, peer: ClientPeer, asked: JsonObject) -> JsonObject | Again:
    """Passes questions of a 2026-07-28 source to the client: as a result to a client of the same era,
    which comes back with the answers; an older client is asked now."""
    requests: dict[str, JsonObject] = asked.get("inputRequests") or {}
    missing = _missing(ctx, requests)
    if is_modern(ctx):
        if missing:
            raise McpError(
                code=MISSING_REQUIRED_CLIENT_CAPABILITY,
                message=f"{_wanted(requests)}, for which the client lacks a capability",
                data={"requiredCapabilities": {method.partition("/")[0]: {} for method in missing}},
            )
        return asked
    if missing or not ctx.session.can_send_request:
        raise ClientError(f"{_wanted(requests)}, which this client cannot give")
    answers = {
        key: await peer.ask(request["method"], request.get("params")) for key, request in requests.items()
    }
    state = asked.get("requestState")
    return Again({"inputResponses": answers} | ({"requestState": state} if state is not None else {}))


def _wanted(requests: Mapping[str, JsonObject]) -> str:
    """Says for what a source asks, with the words of its questions."""
    methods = ", ".join(sorted({request["method"] for request in requests.values()}))
    params: list[JsonObject] = [request.get("params") or {} for request in requests.values()]
    said = "".join(f": {visible(str(item['message']))}" for item in params if item.get("message"))
    return f"the source asks for further input ({methods}{said})"


async def paused(
    app: Spindle, ctx: RequestContext, peer: ClientPeer, pause: OpenPause
) -> JsonObject | Outcome:
    """Handles a run that waits for a person: returns what to tell the client, or the outcome of the
    resumed run."""
    if pause.kind == "approval" and not app.runner.may_approve(pause, pause.principal):
        # Whoever makes a call does not allow it too: the client could answer its own question.
        way = "Somebody else has to approve it first, where Spindle runs; the call then goes on there."
        return error_result(f"{pause.message}\n{way}", _about(pause))
    request = question_of(ctx, pause)
    if request is not None and is_modern(ctx):
        # The run is in the store: whoever comes back with its token goes on with it, also after a restart.
        return {
            "resultType": "input_required",
            "inputRequests": {ANSWER: request},
            "requestState": f"{PAUSE_PREFIX}{pause.token}",
        }
    if pause.kind == "consent":
        # The client makes its call again; this run must not go on by itself when the consent is given.
        with contextlib.suppress(SpindleError):  # that it was refused is how it ends
            await app.resume(
                pause.token, refused="the client makes the call again", principal=pause.principal
            )
        if request is not None and ctx.protocol_version >= "2025-11-25":
            raise _to_be_visited(pause.message, str(pause.details["url"]), pause.token)
        link = f"Open this link to give consent, then call the tool again: {pause.details['url']}"
        return error_result(f"{pause.message}\n{link}", _about(pause))
    if request is None or not ctx.session.can_send_request:
        way = "A person has to answer first, where Spindle runs; the call then goes on there."
        if pause.kind == "wait":
            way = "It goes on there by itself when that is over."
        return error_result(f"{pause.message}\n{way}", _about(pause))
    peer.goes_on = pause.token
    answer = await peer.ask(request["method"], request.get("params"))
    return await go_on(app, pause, answer, peer)


async def go_on(app: Spindle, pause: OpenPause, answer: Any, peer: ClientPeer) -> Outcome:
    """Answer a pause with what the client says that the person did."""
    given, refused = answer_of(pause, answer)
    progress = peer.progress if peer.wants_progress else None
    peer.goes_on = NOWHERE  # what was done before the pause must not be done again
    with answered_by(of_client(peer)):
        return await app.resume(
            pause.token, given, refused=refused, principal=pause.principal, on_progress=progress
        )


def answer_of(pause: OpenPause, answer: Any) -> tuple[Any, str | None]:
    """The answer to a pause that the client's answer to its question means, or the reason for refusing."""
    action = answer.get("action") if is_object(answer) else None
    if action != "accept":
        return None, "the person declined" if action == "decline" else "the person gave no answer"
    content: JsonObject = answer.get("content") or {}
    given: Any = None
    if pause.kind == "approval":
        given = (
            {"done": True} if content.get("done") is True else {"approved": content.get("approved") is True}
        )
    elif pause.kind == "input":
        given = content if _is_form(pause.details.get("schema")) else content.get(ANSWER)
    return given, None


def question_of(ctx: RequestContext, pause: OpenPause) -> JsonObject | None:
    """The question of a pause, if the client can be asked it."""
    request = _question(pause)
    return request if request is not None and not _missing(ctx, {ANSWER: request}) else None


def _missing(ctx: RequestContext, requests: Mapping[str, JsonObject]) -> list[str]:
    """The requests that the client did not declare to answer."""
    capabilities = ctx.session.client_capabilities
    asked = requests.values()
    return [
        item["method"] for item in asked if not is_capable(capabilities, item["method"], item.get("params"))
    ]


def _question(pause: OpenPause) -> JsonObject | None:
    """The pause as an elicitation."""
    message = visible(pause.message)
    params: JsonObject = {"mode": "form", "message": message}
    match pause.kind:
        case "consent":
            url = str(pause.details["url"])
            params = {"mode": "url", "message": message, "url": url, "elicitationId": pause.token}
        case "approval":
            known = ("tool", "arguments", "node", "inputs", "in_doubt")
            about = {key: pause.details[key] for key in known if key in pause.details}
            shown = f"\n{to_json(about).decode()}" if about else ""
            params["message"] = f"{message}{visible(shown)}"
            fields: JsonObject = {"approved": {"type": "boolean", "title": "Allow it"}}
            params["requestedSchema"] = {"type": "object", "properties": fields, "required": ["approved"]}
            if "in_doubt" in pause.details:
                choices = {"approved": "Call it again", "done": "It was done"}
                fields = {name: {"type": "boolean", "title": title} for name, title in choices.items()}
                params["requestedSchema"] = {"type": "object", "properties": fields}
        case "input":
            schema = pause.details.get("schema")
            if not schema and "url" in pause.details:
                url = str(pause.details["url"])
                params = {"mode": "url", "message": message, "url": url, "elicitationId": pause.token}
                return {"method": "elicitation/create", "params": params}
            if not _is_form(schema):
                if is_object(schema) and schema.get("type") not in ("string", "number", "integer", "boolean"):
                    return None  # forms have plain values only
                schema = {"type": "object", "properties": {ANSWER: schema}, "required": [ANSWER]}
            params["requestedSchema"] = schema
        case "wait":
            return None  # nobody is asked
    return {"method": "elicitation/create", "params": params}


def _is_form(schema: Any) -> bool:
    return is_object(schema) and schema.get("type") == "object"


def _about(pause: OpenPause) -> JsonObject:
    return {"io.spindle/pause": pause.to_dict()}


def refusal(ctx: RequestContext, error: SpindleError | Interruption) -> McpError:
    """Returns one of our errors as the protocol's, for a request whose result cannot say what went wrong."""
    if isinstance(error, Interruption):
        return _interrupted(ctx, error)
    if isinstance(error, LoopError):
        return loop_refusal(error)
    about: JsonObject = error.details if is_object(error.details) else {}
    is_read = ctx.method.startswith("resources/")
    missing = RESOURCE_NOT_FOUND if is_read and not is_modern(ctx) else INVALID_PARAMS
    if isinstance(error, NotFoundError):
        data = {"uri": about["uri"]} if "uri" in about else about.get("data")
        return McpError(code=missing, message=_text(error), data=data)
    code = about.get("code")
    if is_of_server(error) and code != RESOURCE_NOT_FOUND:
        words = error.message.removeprefix(f"{error.source!r}: ")
        return McpError(code=about["code"], message=words, data=about.get("data"))
    if not isinstance(code, int):
        return McpError(code=INTERNAL_ERROR, message=_text(error), data={"category": error.category})
    if code == RESOURCE_NOT_FOUND:
        code = missing
    return McpError(code=code, message=_text(error), data=about.get("data"))


def loop_refusal(error: LoopError) -> McpError:
    """Returns the error about a loop with its path, to which the workspace that asked adds its own part."""
    return McpError(code=INVALID_REQUEST, message=_text(error), data={LOOP_KEY: [*error.path]})


def _text(error: SpindleError) -> str:
    hint = error.hint_for("model")
    return error.message if hint is None else f"{error.message}; hint: {hint}"


def _interrupted(ctx: RequestContext, asked: Interruption) -> McpError:
    if not isinstance(asked, AuthorizationRequired):
        return McpError(code=INTERNAL_ERROR, message=f"{asked.message}, which a person has to answer first")
    if is_capable(ctx.session.client_capabilities, "elicitation/create", {"mode": "url"}):
        return _to_be_visited(asked.message, asked.url, new_id())
    return McpError(
        code=INTERNAL_ERROR, message=f"{asked.message}; open this link to give consent: {asked.url}"
    )


def _to_be_visited(message: str, url: str, token: str) -> McpError:
    """The error that sends a person to a page first."""
    page = {"mode": "url", "message": message, "url": url, "elicitationId": token}
    return McpError(URL_ELICITATION_REQUIRED, message, {"elicitations": [page]})
