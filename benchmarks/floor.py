"""The least that a gateway can cost: `floor.py PORT COMMAND…` passes calls on to a stdio server, unguarded.

uvicorn with httptools and uvloop, orjson, one pipe. What a gateway takes beyond this is its own.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import orjson
import uvicorn

JSON = [(b"content-type", b"application/json")]
ABOUT = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "floor", "version": "1"},
}


class Pipe(asyncio.SubprocessProtocol):
    """The server's process: requests by a number of ours, and the answers that wait for it."""

    def __init__(self) -> None:
        self._rest = b""
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._number = 0
        self._input: Any = None

    def connection_made(self, transport: Any) -> None:
        self._input = transport.get_pipe_transport(0)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            answer = orjson.loads(line)
            self._waiting.pop(answer["id"]).set_result(answer)

    async def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        future = self._waiting[self._number] = asyncio.get_running_loop().create_future()
        self._input.write(orjson.dumps({**message, "id": self._number}) + b"\n")
        return {**await future, "id": message["id"]}


class Floor:
    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._pipe: Pipe | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            event = await receive()
            body += event.get("body", b"")
            more = event.get("more_body", False)
        message = orjson.loads(body)
        if "id" not in message:
            await send({"type": "http.response.start", "status": 202, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        if message["method"] == "initialize":
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": ABOUT}
        else:
            if self._pipe is None:
                _, self._pipe = await asyncio.get_running_loop().subprocess_exec(
                    Pipe, *self._command, stderr=None
                )
            answer = await self._pipe.ask(message)
        data = orjson.dumps(answer)
        headers = [*JSON, (b"content-length", b"%d" % len(data))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": data})


if __name__ == "__main__":
    uvicorn.run(
        Floor(sys.argv[2:]), port=int(sys.argv[1]), http="httptools", loop="uvloop", lifespan="off",
        log_level="critical", access_log=False,
    )  # fmt: skip
