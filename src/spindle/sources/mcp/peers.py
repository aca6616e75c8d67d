"""Passes messages and questions of a server back to the caller that they belong to.

Over HTTP a server's question comes on the stream of the call it belongs to. Over pipes nothing says to
which call it belongs, so there it is passed on only when all calls that run were made by one and the
same program: one user's question must never be shown to another.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Generator, Mapping, Sequence
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
    RequestId,
    SamplingCapability,
    SamplingToolsCapability,
)
from pydantic import BaseModel, TypeAdapter, ValidationError

from spindle.domain import trail
from spindle.domain.json_schema import is_object
from spindle.mcp_imports import CallOptions, JSONRPCDispatcher, MCPError
from spindle.sources.mcp.exchange import current_exchange

if TYPE_CHECKING:
    from spindle.domain.call import Call, Peer
    from spindle.domain.json_schema import JsonObject
    from spindle.mcp_imports import ClientRequestContext

logger = logging.getLogger("spindle.mcp")

QUESTIONS = frozenset({"elicitation", "sampling", "roots"})

AnswerT = TypeVar("AnswerT")

_sampled: TypeAdapter[CreateMessageResult | CreateMessageResultWithTools] = TypeAdapter(
    CreateMessageResult | CreateMessageResultWithTools
)


class Peers:
    """The callers of the calls that run on one session."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._running: dict[str, Call] = {}

    @contextlib.contextmanager
    def serving(self, call: Call) -> Generator[None]:
        self._running[call.key] = call
        try:
            yield
        finally:
            del self._running[call.key]

    def current(self) -> Peer | None:
        exchange = current_exchange.get()
        if exchange is not None and exchange.call is not None:
            return exchange.call.peer
        peers = [call.peer for call in self._running.values()]
        newest = peers[-1] if peers else None
        if newest is None or any(peer is None or peer.owner != newest.owner for peer in peers):
            return None
        return newest

    def wants_logs(self) -> bool:
        return any(call.peer is not None and call.peer.log_level for call in self._running.values())

    # --- what the SDK's session calls

    async def log(self, params: LoggingMessageNotificationParams) -> None:
        peer = self.current()
        if peer is not None:
            peer.log(params.level, params.data, params.logger or self._name)

    async def elicit(
        self, _context: ClientRequestContext, params: ElicitRequestParams
    ) -> ElicitResult | ErrorData:
        return await self._ask("elicitation/create", params, TypeAdapter(ElicitResult))

    async def sample(
        self, _context: ClientRequestContext, params: CreateMessageRequestParams
    ) -> CreateMessageResult | CreateMessageResultWithTools | ErrorData:
        return await self._ask("sampling/createMessage", params, _sampled)

    async def roots(self, _context: ClientRequestContext) -> ListRootsResult | ErrorData:
        return await self._ask("roots/list", None, TypeAdapter(ListRootsResult))

    async def _ask(
        self, method: str, params: BaseModel | None, answer: TypeAdapter[AnswerT]
    ) -> AnswerT | ErrorData:
        peer = self.current()
        if peer is None or not peer.can_answer(method):
            return ErrorData(code=INVALID_REQUEST, message=f"this client cannot answer {method}")
        try:
            return answer.validate_python(await peer.ask(method, dumped(params)), by_name=False)
        except MCPError as error:
            return error.error
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
    narrowed = dict(as_the_caller(params) or {})
    way = trail.current()
    return trail.with_meta(narrowed, way) if way else narrowed


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
    # Where nobody waits for the answer, a pause does.
    peer = exchange.call.peer
    theirs = peer.capabilities if peer is not None else {"elicitation": ours.get("elicitation")}
    declared = {
        key: theirs.get(key) if key in QUESTIONS else value
        for key, value in ours.items()
        if key not in QUESTIONS or theirs.get(key) is not None
    }
    return {**params, "_meta": {**meta, CLIENT_CAPABILITIES_META_KEY: declared}}


class CallerDispatcher(JSONRPCDispatcher[Any]):
    """The SDK's dispatcher, acting for the caller of a call."""

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
        *,
        _related_request_id: RequestId | None = None,
    ) -> dict[str, Any]:
        sent = as_sent(params) or None
        return await super().send_raw_request(method, sent, opts, _related_request_id=_related_request_id)


def dumped(model: BaseModel | None) -> JsonObject | None:
    """The model as JSON in the protocol's form."""
    return None if model is None else model.model_dump(by_alias=True, mode="json", exclude_none=True)
