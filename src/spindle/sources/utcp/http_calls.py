"""Calls of the HTTP family: plain requests, event streams, streamed answers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from spindle.domain import trail
from spindle.domain.call import Call, Result
from spindle.domain.json_schema import JsonObject
from spindle.domain.tool import Tool
from spindle.errors import CallTimeoutError, ConnectionFailedError, ServerError
from spindle.http.responses import to_error, to_result
from spindle.sources.parameters import as_text
from spindle.sources.utcp.requests import placed, prepare
from spindle.sources.utcp.streams import LINES, collected, events, item_of, lines, whole
from spindle.sources.utcp.templates import HttpLike, HttpTemplate, SseTemplate, StreamableHttpTemplate
from spindle.telemetry import tracing

if TYPE_CHECKING:
    from spindle.http.answer import HttpAnswer
    from spindle.http.credentials import CredentialParts
    from spindle.http.origins import CredentialOrigins
    from spindle.sources.utcp.sending import Renew, Sender

MAX_RECONNECTS = 5
RECONNECT_WAIT = 1.0
LONGEST_WAIT = 60.0
PROGRESS_TEXT = 200


class HttpCalls:
    """Calls tools of the HTTP family through one sender."""

    def __init__(self, name: str, sender: Sender, origins: CredentialOrigins) -> None:
        self._name = name
        self._sender = sender
        self._origins = origins

    async def call(
        self,
        template: HttpLike,
        tool: Tool,
        call: Call,
        shown: CredentialParts,
        renew: Renew | None,
        *,
        remote: bool,
        own: bool,
    ) -> Result:
        """`own`: the template holds values that the user gave, which go only where credentials may."""
        if own:
            self._origins.require(
                placed(template.url, dict(call.arguments)), f"variables that {tool.name} uses"
            )
        key, way = call.key_in("header"), trail.headers_for(tool.spec.metadata) | tracing.headers()
        if key or way:
            template = template.model_copy(update={"headers": {**key, **template.headers, **way}})
        match template:
            case SseTemplate():
                return await self._events(template, call, shown, renew, remote=remote)
            case StreamableHttpTemplate():
                async with within(tool, template.timeout / 1000 if template.timeout else None):
                    return await self._streamed(template, call, shown, renew, remote=remote)
            case _:
                assert isinstance(template, HttpTemplate)
                async with self._answer(template, call.arguments, shown, renew, remote=remote) as answer:
                    body = await self._sender.body(answer)
                return to_result(answer, body, promised=tool.spec.output_schema is not None)

    @contextlib.asynccontextmanager
    async def _answer(
        self,
        template: HttpLike,
        arguments: JsonObject,
        shown: CredentialParts,
        renew: Renew | None,
        *,
        remote: bool,
        last_event: str | None = None,
    ) -> AsyncGenerator[HttpAnswer]:
        prepared = prepare(template, arguments, shown)
        if last_event:
            prepared.headers["last-event-id"] = last_event
        async with self._sender.exchange(prepared, remote=remote, renew=renew) as answer:
            if answer.status >= 300:
                raise to_error(self._name, answer, await self._sender.body(answer))
            yield answer

    async def _streamed(
        self,
        template: StreamableHttpTemplate,
        call: Call,
        shown: CredentialParts,
        renew: Renew | None,
        *,
        remote: bool,
    ) -> Result:
        async with self._answer(template, call.arguments, shown, renew, remote=remote) as answer:
            media_type = answer.media_type
            if media_type == "text/event-stream":
                found = [event.data async for event in events(answer.chunks(self._sender.limit))]
                return collected([item_of(data) for data in found if data is not None])
            if media_type in LINES:
                items: list[Any] = []
                async for line in lines(answer.chunks(self._sender.limit), with_rest=True):
                    if line.strip():
                        items.append(item_of(line))
                        await _report(call, items)
                return collected(items)
            body = await self._sender.body(answer)
        if media_type.endswith(("/json", "+json")):
            # One item: as many as there are.
            result = to_result(answer, body, promised=False)
            return collected([result.structured]) if result.has_structured else collected([])
        return whole(media_type, body)

    async def _events(
        self, template: SseTemplate, call: Call, shown: CredentialParts, renew: Renew | None, *, remote: bool
    ) -> Result:
        """Goes on where it was when the stream breaks off and the server has said how: by an event's id."""
        items: list[Any] = []
        last_event: str | None = None
        wait = RECONNECT_WAIT if template.retry_timeout is None else template.retry_timeout / 1000
        attempts = 0
        while True:
            try:
                async with self._answer(
                    template, call.arguments, shown, renew, remote=remote, last_event=last_event
                ) as answer:
                    self._require_event_stream(answer)
                    async for event in events(answer.chunks(self._sender.limit)):
                        last_event = event.id if event.id is not None else last_event
                        wait = wait if event.retry is None else event.retry / 1000
                        if event.data is None or event.type != (template.event_type or event.type):
                            continue
                        items.append(item_of(event.data))
                        await _report(call, items)
                return collected(items)
            except ConnectionFailedError:
                attempts += 1
                sends_body = template.body_field is not None and template.body_field in call.arguments
                if not last_event or not template.reconnect or sends_body or attempts > MAX_RECONNECTS:
                    raise
            await asyncio.sleep(min(wait, LONGEST_WAIT))

    def _require_event_stream(self, answer: HttpAnswer) -> None:
        media_type = answer.media_type
        if media_type != "text/event-stream":
            raise ServerError(
                f"{self._name!r} should answer with an event stream, not {media_type or 'without a type'}",
                status=answer.status,
            )


async def _report(call: Call, items: list[Any]) -> None:
    if call.on_progress is not None:
        await call.on_progress(len(items), None, as_text(items[-1])[:PROGRESS_TEXT])


@contextlib.asynccontextmanager
async def within(tool: Tool, seconds: float | None) -> AsyncGenerator[None]:
    """Keeps the time that a template sets, besides the call's own."""
    timer = asyncio.timeout(seconds)
    try:
        async with timer:
            yield
    except TimeoutError:
        if not timer.expired():
            raise
        raise CallTimeoutError(
            f"{tool.name} did not answer within {seconds:g} s, which is the `timeout` of its call template"
        ) from None
