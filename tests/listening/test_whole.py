"""Requests and answers past the messages of ASGI."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from servers.running import PATIENCE
from spindle.listening.server import EmbeddedServer
from spindle.listening.whole import sent_whole, whole_body

HEAD = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n"


async def exchanged(app: Any, request: bytes) -> bytes:
    """What a server of this app sends for a request, until it closes the connection or has sent all."""
    server = EmbeddedServer(app)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        running = asyncio.create_task(server.serve(sockets=[listening]))
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection(*listening.getsockname())
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            body = await reader.readexactly(length)
            writer.close()
            server.stop(1)
            await running
    return head + body


async def plainly(send: Any, body: bytes) -> None:
    headers = [(b"x-kind", b"test"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def test_a_whole_answer_is_what_the_messages_of_asgi_would_send() -> None:
    async def whole(scope: Any, receive: Any, send: Any) -> None:
        assert whole_body(receive, 100) == b"hello"
        assert sent_whole(send, 200, b"x-kind: test\r\n", b"answer")
        assert not sent_whole(send, 200, b"", b"twice"), "there is one answer"

    async def by_messages(scope: Any, receive: Any, send: Any) -> None:
        assert (await receive())["body"] == b"hello"
        await plainly(send, b"answer")

    def without_date(answer: bytes) -> list[bytes]:
        return [line for line in answer.split(b"\r\n") if not line.startswith(b"date:")]

    quick = await exchanged(whole, HEAD + b"\r\nhello")
    assert without_date(quick) == without_date(await exchanged(by_messages, HEAD + b"\r\nhello"))


async def test_a_connection_that_ends_with_its_answer_gets_it_by_messages() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert whole_body(receive, 100) == b"hello"
        assert not sent_whole(send, 200, b"", b"answer"), "it says that it closes"
        await plainly(send, b"answer")

    answer = await exchanged(app, HEAD + b"connection: close\r\n\r\nhello")
    assert b"connection: close" in answer
    assert answer.endswith(b"answer")


async def test_whoever_adds_to_answers_is_not_passed_over() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        async def marked(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"].append((b"x-mark", b"yes"))
            await send(message)

        assert not sent_whole(marked, 200, b"", b"answer")
        await plainly(marked, b"answer")

    assert b"x-mark: yes" in await exchanged(app, HEAD + b"\r\nhello")


async def test_a_body_over_the_limit_or_not_complete_has_to_be_received() -> None:
    seen: list[bytes | None] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(whole_body(receive, 4))
        assert (await receive())["body"] == b"hello"
        await plainly(send, b"answer")

    await exchanged(app, HEAD + b"\r\nhello")
    assert seen == [None]
