"""A web API that charges cards, counts what it did, and answers only when it is told to."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from servers.running import PATIENCE


@dataclass(frozen=True)
class Asked:
    """One request, which was done when it arrived."""

    operation: str
    body: dict[str, Any]
    headers: dict[str, str]


@dataclass
class ChargingServer:
    """Speaks HTTP at a real port, in the test's own loop."""

    port: int = 0
    asked: list[Asked] = field(default_factory=list[Asked])
    held: set[str] = field(default_factory=set[str])
    """Operations that are done and not answered, until they are released."""
    statuses: list[int] = field(default_factory=list[int])
    """The statuses of the next answers; 200 if there are none."""
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    def count(self, operation: str = "charge") -> int:
        return sum(asked.operation == operation for asked in self.asked)

    async def arrived(self, count: int, operation: str = "charge") -> None:
        """Waits until so many requests were done."""
        async with asyncio.timeout(PATIENCE * 2), self._changed:
            await self._changed.wait_for(lambda: self.count(operation) >= count)

    async def release(self) -> None:
        """Answers everything from now on."""
        async with self._changed:
            self.held.clear()
            self._changed.notify_all()

    def write(self, root: Path, settings: str = "", head: str = "") -> None:
        """Makes it the source `api` of a workspace."""
        (root / "api.json").write_text(json.dumps(self.document()))
        (root / "spindle.toml").write_text(
            f'{head}[sources.api]\nkind = "openapi"\ndocument = "api.json"\n{settings}'
        )

    def document(self) -> dict[str, Any]:
        body = {
            "type": "object",
            "properties": {"amount": {"type": "integer"}, "password": {"type": "string"},
                           "request_id": {"type": "string"}},
        }  # fmt: skip
        answer = {"200": {"description": "done", "content": {"application/json": {"schema": {}}}}}

        def operation(name: str, *, sends: bool) -> dict[str, Any]:
            request = {"requestBody": {"content": {"application/json": {"schema": body}}}} if sends else {}
            return {"operationId": name, "responses": answer, **request}

        return {
            "openapi": "3.1.0",
            "info": {"title": "api", "version": "1"},
            "servers": [{"url": f"http://127.0.0.1:{self.port}"}],
            "paths": {
                "/charge": {"post": operation("charge", sends=True)},
                "/balance": {"get": operation("balance", sends=False)},
                "/limit": {"put": operation("limit", sends=True)},
            },
        }

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[:-2]
                _, path, _ = head[0].split(" ")
                headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in head[1:])}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                async with self._changed:
                    self.asked.append(Asked(path[1:], json.loads(body or b"{}"), headers))
                    self._changed.notify_all()
                    await self._changed.wait_for(lambda name=path[1:]: name not in self.held)
                status = self.statuses.pop(0) if self.statuses else 200
                answer = json.dumps({"id": len(self.asked)}).encode()
                writer.write(
                    b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
                    % (status, len(answer), answer)
                )
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # whoever asked was killed, or has ended
        finally:
            writer.close()


@contextlib.asynccontextmanager
async def charging_server() -> AsyncIterator[ChargingServer]:
    made = ChargingServer()
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(made.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
