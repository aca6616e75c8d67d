"""Clients of the handshake era that lost the connection of an answer and ask for the rest of it
(`Last-Event-ID`), in whichever process: that which does the work is asked. Where it is gone, the store has
the answer, or the request if that waited for an answer to a question and can be made again. Else the client
is told that the answer is lost, and need not wait for it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any

from spindle.errors import ConnectionFailedError
from spindle.mcp_protocol.errors import same_id
from spindle.mcp_protocol.names import INTERNAL_ERROR
from spindle.mcp_server.calling import answered
from spindle.mcp_server.channel import RequestChannel, cancelled_message, error_message
from spindle.mcp_server.event_ids import FIRST_VERSION_WITH_PRIMERS, EventId, event, primer
from spindle.mcp_server.exchange import QUIET, SSE_HEADERS, until_gone
from spindle.mcp_server.inbound import Inbound
from spindle.mcp_server.kept_answers import LOST, KeptAnswer, Waiting

if TYPE_CHECKING:
    from starlette.types import Receive, Send

    from spindle.domain.json_schema import JsonObject
    from spindle.mcp_server.server import CatalogServer
    from spindle.mcp_server.sessions import HttpSession, Sessions
    from spindle.serving.relays import Say

logger = logging.getLogger("spindle.serve")

MOST_MOVES = 8
"""Processes that may have gone one after the other while they went on with an answer."""


class Resuming:
    """Goes on with answers."""

    def __init__(self, catalog: CatalogServer, sessions: Sessions) -> None:
        self._catalog = catalog
        self._sessions = sessions
        self._kept = sessions.kept
        self._relays = catalog.relays
        self._tasks: set[asyncio.Task[None]] = set()
        self._relays.on("rest of an answer", self._say_rest)

    async def serve(
        self, session: HttpSession, last: EventId, scope: Mapping[str, Any], receive: Receive, send: Send
    ) -> None:
        """Sends all that came after an event, to the end of the answer."""
        await send(
            {"type": "http.response.start", "status": 200, "headers": [*SSE_HEADERS, *session.headers]}
        )
        # A client that loses this connection too goes on from the last event that it got on it.
        primes = session.connection.protocol_version >= FIRST_VERSION_WITH_PRIMERS
        begin = primer(last) if primes else b": open\n\n"
        await send({"type": "http.response.body", "body": begin, "more_body": True})
        events = self._events(session, last, scope)
        leaving = asyncio.create_task(until_gone(receive))
        getting = asyncio.create_task(anext(events, None))
        try:
            while not leaving.done():
                await asyncio.wait({leaving, getting}, timeout=QUIET, return_when=asyncio.FIRST_COMPLETED)
                body: bytes | None = b": still at work\n\n"
                if getting.done():
                    body = getting.result()
                    if body is None:
                        break
                    getting = asyncio.create_task(anext(events, None))
                await send({"type": "http.response.body", "body": body, "more_body": True})
        finally:
            leaving.cancel()
            getting.cancel()
            await asyncio.wait({getting})
            await events.aclose()
        with contextlib.suppress(OSError):
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _events(
        self, session: HttpSession, last: EventId, scope: Mapping[str, Any]
    ) -> AsyncGenerator[bytes]:
        assert session.facts is not None
        kept: KeptAnswer | None = None
        place, waiting = last, None
        for _ in range(MOST_MOVES):
            key = session.facts.key, place.stream
            kept = self._kept.find(key) if place.process == self._kept.process else None
            if kept is not None:
                break
            found = await self._kept.stored(key, place.process)
            if not isinstance(found, list) and place.process != self._kept.process:
                async with contextlib.aclosing(self._elsewhere(key, place)) as elsewhere:
                    async for data in elsewhere:
                        if data is None:
                            return
                        yield data
                        place = place._replace(number=place.number + 1)
                found = await self._kept.stored(key, place.process)  # it may have asked or ended meanwhile
            if isinstance(found, list):
                for data in (data for number, data in found if number > place.number):
                    yield data
                return
            if isinstance(found, Waiting):
                waiting = place
            moved = found.moved if isinstance(found, Waiting) else found
            if moved is None:
                break
            place = EventId(*moved, 0, last.request)
        number = place.number
        if kept is None and waiting is not None:
            kept, number = await self._again(session, waiting, scope), 0
        if kept is None:
            if last.request is not None:
                lost = error_message(last.request, INTERNAL_ERROR, LOST)
                yield event(lost, last._replace(number=last.number + 1))
            return
        async with contextlib.aclosing(kept.after(number)) as rest:
            async for data in rest:
                yield data

    # --- in another process

    async def _elsewhere(self, key: tuple[str, str], last: EventId) -> AsyncGenerator[bytes | None]:
        """The events that another process has, and None at the end. Ends without if that process is gone, or
        does not know the answer."""
        asked = {"session": key[0], "stream": key[1], "after": last.number}
        heard = await self._relays.ask(last.process, "rest of an answer", asked)
        if heard is None:
            return
        try:
            async for said in heard:
                if "unknown" in said:
                    return
                yield said["event"].encode()
        except ConnectionFailedError:
            return
        finally:
            await heard.aclose()
        yield None

    async def _say_rest(self, body: JsonObject, say: Say) -> None:
        kept = self._kept.find((body["session"], body["stream"]))
        if kept is None:
            await say({"unknown": True})
            return
        async with contextlib.aclosing(kept.after(body["after"])) as rest:
            async for data in rest:
                await say({"event": data.decode()})

    # --- made again

    async def _again(
        self, session: HttpSession, place: EventId, scope: Mapping[str, Any]
    ) -> KeptAnswer | None:
        """Makes a request again that waited for an answer to a question in a process that is gone, or goes on
        with its run. None if it did not wait, or another process is faster."""
        assert session.facts is not None
        key = session.facts.key, place.stream
        found = await self._kept.stored(key, place.process)
        if not isinstance(found, Waiting):
            return None
        request_id = same_id(found.message["id"])
        if request_id in session.running:
            return None
        kept = self._kept.begin(session, found.message)
        if not await self._kept.take(key, place.process, kept):
            self._kept.dropped(kept)
            return None
        # What a run was answered before is on its record.
        kept.given = [*found.answered] if found.pause is None else []
        said = await self._answer_left(session, found.question, place.process)
        if said is not None:
            kept.given.append((found.mark, said))
        channel = RequestChannel(request_id, found.message.get("params"), kept.event, kept.ask)
        channel.facts = Inbound(session.connection, session.principal, channel, scope, found.pause)
        task = asyncio.create_task(self._work(session, kept, channel, found.message))
        self._tasks.add(task)
        task.add_done_callback(self._done)
        session.running[request_id] = task, channel
        return kept

    async def _answer_left(self, session: HttpSession, question: str, process: str) -> JsonObject | None:
        """The client's answer, if it came when its process was gone."""
        assert session.facts is not None
        for body in await self._catalog.processes.left_for(process, "answer"):
            message: JsonObject = body["message"]
            if body["session"] == session.facts.key and message.get("id") == question:
                return message.get("result")
        return None

    async def _work(
        self, session: HttpSession, kept: KeptAnswer, channel: RequestChannel, message: JsonObject
    ) -> None:
        request_id = same_id(message["id"])
        work = answered(self._catalog, channel, message["method"], message.get("params"))
        try:
            answer = await work
        except asyncio.CancelledError:
            if not channel.is_cancelled:
                self._kept.dropped(kept)
                raise
            answer = cancelled_message(message["id"])
        finally:
            session.running.pop(request_id, None)
            session.touch()
        await kept.finish(answer, is_lost=True)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a request that was made again failed", exc_info=error)

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
