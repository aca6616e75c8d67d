"""A real HTTP server that keeps every byte it is sent, and what tests say about documents."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from spindle.domain.call import Call, Result
from spindle.domain.identity import NO_CREDENTIAL, Credential
from spindle.domain.tool import Tool
from spindle.sources.openapi.session import OpenApiSession

PUBLIC = "127.0.0.2"
IGNORED = ("host", "user-agent", "accept-encoding", "connection", "content-length")


@dataclass
class Sent:
    """One request, as it arrived."""

    line: str
    headers: list[tuple[str, str]]
    body: bytes
    address: str = ""
    """At which of the server's it arrived."""

    @property
    def own_headers(self) -> dict[str, str]:
        return {name: value for name, value in self.headers if name not in IGNORED}

    @property
    def target(self) -> str:
        return self.line.split(" ")[1]


@dataclass
class Answer:
    body: bytes = b"{}"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])
    break_off: bool = False
    pieces: Iterable[bytes] | None = None
    """Instead of a body: sent one after the other as chunks, as long as the client reads."""
    then: asyncio.Event | None = None
    """Waited for before the answer is completed."""


class EchoServer:
    """Answers with what `answers` has for a path, else with an empty object."""

    def __init__(self) -> None:
        self.requests: list[Sent] = []
        self.answers: dict[str, Answer] = {}
        self.connections = 0
        self.url = ""
        self.public_url = ""
        """The same server at an address that the fixture `names` makes public."""

    @property
    def last(self) -> Sent:
        return self.requests[-1]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                line, *rest = head.rstrip("\r\n").split("\r\n")
                pairs = [entry.split(": ", 1) for entry in rest]
                headers = [(pair[0].lower(), pair[1] if len(pair) > 1 else "") for pair in pairs]
                length = int(dict(headers).get("content-length", 0))
                self.requests.append(
                    Sent(
                        line, headers, await reader.readexactly(length), writer.get_extra_info("sockname")[0]
                    )
                )
                answer = self.answers.get(self.last.target.partition("?")[0], Answer())
                writer.write(self._response(answer, line.startswith("HEAD ")))
                await writer.drain()
                for piece in answer.pieces or ():
                    writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                    await writer.drain()
                if answer.then is not None:
                    await answer.then.wait()
                if answer.pieces is not None:
                    writer.write(b"0\r\n\r\n")
                if answer.break_off:
                    break
        writer.close()

    @staticmethod
    def _response(answer: Answer, is_head: bool) -> bytes:
        headers = {"content-type": "application/json", "content-length": str(len(answer.body))}
        if answer.pieces is not None:
            del headers["content-length"]
            headers["transfer-encoding"] = "chunked"
        headers |= answer.headers
        if answer.break_off:
            headers["content-length"] = str(len(answer.body) + 10)
        lines = [f"{name}: {value}" for name, value in headers.items()]
        return (
            f"HTTP/1.1 {answer.status} Said\r\n".encode()
            + "\r\n".join([*lines, "", ""]).encode()
            + (answer.body if answer.pieces is None and not is_head else b"")
        )


@dataclass
class Api:
    """An open session, its tools by name, what was noted, and why other tools are left out."""

    session: OpenApiSession
    tools: dict[str, Tool]
    notes: list[str]
    credential: Credential = NO_CREDENTIAL
    left_out: dict[str, str] = field(default_factory=dict[str, str])

    async def call(self, name: str, arguments: dict[str, Any] | None = None) -> Result:
        call = Call(name, arguments or {}, credential=self.credential)
        return await self.session.invoke(self.tools[name], call)


OpenApi = Callable[..., contextlib.AbstractAsyncContextManager[Api]]


def a_document(paths: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": paths, **more}
