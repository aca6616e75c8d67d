"""Events over WebSocket, to a real server."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from event_documents import Workspace, document
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from servers.running import PATIENCE
from spindle.errors import CallTimeoutError, ConnectionFailedError, NotFoundError


class Service:
    """Keeps what it gets; answers questions; can stop reading."""

    def __init__(self) -> None:
        self.got: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        self.connections: list[ServerConnection] = []
        self.joined = asyncio.Event()
        self.port = 0

    async def handle(self, connection: ServerConnection) -> None:
        assert connection.request is not None
        self.connections.append(connection)
        self.joined.set()
        with contextlib.suppress(ConnectionClosed):
            async for text in connection:
                message = json.loads(text)
                await self.got.put((connection.request.path, message))
                if message.get("data", {}).get("question"):
                    same = {"correlationid": message["correlationid"]}
                    answer = {"specversion": "1.0", "id": "a", "source": "s", "type": "t", "data": 42}
                    await connection.send(json.dumps({**answer, "id": "b", "correlationid": "none"}))
                    await connection.send(json.dumps(answer | same))


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    made = Service()
    async with serve(made.handle, "127.0.0.1", 0) as server:
        made.port = next(iter(server.sockets)).getsockname()[1]
        yield made


def connected(workspace: Workspace, service: Service, **more: Any) -> dict[str, Any]:
    server = {"host": f"127.0.0.1:{service.port}", "protocol": "ws", "pathname": "/v1"}
    content = document(server=server, **more)
    workspace.write("events/a.json", content)
    return content


async def test_an_event_is_a_message_on_the_channel_s_own_connection(
    workspace: Workspace, service: Service
) -> None:
    connected(workspace, service)
    async with workspace.open() as app:
        result = await app.call("emit", id=1)
        await app.call("emit", id=2)
        path, message = await service.got.get()
    assert path == "/v1/orders/placed"
    assert message["data"] == {"id": 1}
    assert message["specversion"] == "1.0"
    assert result.structured["acknowledged"] == {"pong": True}
    assert len(service.connections) == 1


async def test_the_query_of_a_server_goes_to_each_of_its_channels(
    workspace: Workspace, service: Service
) -> None:
    workspace.settings(servers={"main": {"url": f"ws://127.0.0.1:{service.port}/v1?team=a#part"}})
    connected(workspace, service)
    async with workspace.open() as app:
        await app.call("emit", id=1)
        path, _ = await service.got.get()
    assert path == "/v1/orders/placed?team=a"


async def test_plain_messages_for_services_that_know_no_envelope(
    workspace: Workspace, service: Service
) -> None:
    workspace.settings(envelope="plain")
    connected(workspace, service)
    async with workspace.open() as app:
        await app.call("emit", op="subscribe")
        assert (await service.got.get())[1] == {"op": "subscribe"}


async def test_waiting_hears_what_the_server_sends(workspace: Workspace, service: Service) -> None:
    connected(workspace, service)
    async with workspace.open() as app:
        await app.sync()
        waiting = asyncio.create_task(app.call("wait", filter={"n": 2}))
        await asyncio.wait_for(service.joined.wait(), PATIENCE)
        # A pong says that the client has its side ready, so that nothing is missed.
        await (await service.connections[0].ping())
        for number in (1, 2):
            await service.connections[0].send(json.dumps({"n": number}))
        assert (await asyncio.wait_for(waiting, PATIENCE)).structured["data"] == {"n": 2}


async def test_a_question_gets_its_answer(workspace: Workspace, service: Service) -> None:
    content = connected(workspace, service)
    content["operations"]["emit"]["reply"] = {"channel": {"$ref": "#/channels/c"}}
    workspace.write("events/a.json", content)
    async with workspace.open() as app:
        assert (await app.call("emit", question=True)).structured["data"] == 42


async def test_a_lost_connection_is_opened_again(workspace: Workspace, service: Service) -> None:
    workspace.settings(retry={"attempts": 1})
    connected(workspace, service)
    async with workspace.open() as app:
        await app.call("emit", id=1)
        await service.connections[0].close()
        with contextlib.suppress(ConnectionFailedError):
            await app.call("emit", id=2)
        await app.call("emit", id=3)
    assert len(service.connections) == 2


async def test_a_server_that_goes_while_waited_for_is_an_error(
    workspace: Workspace, service: Service
) -> None:
    workspace.settings(retry={"attempts": 1})
    connected(workspace, service)
    async with workspace.open() as app:
        await app.sync()
        waiting = asyncio.create_task(app.call("wait"))
        await asyncio.wait_for(service.joined.wait(), PATIENCE)
        await service.connections[0].close()
        with pytest.raises(ConnectionFailedError):
            await asyncio.wait_for(waiting, PATIENCE)


async def test_a_server_that_does_not_answer_pings_is_an_error_in_time(workspace: Workspace) -> None:
    async def frozen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        import base64
        import hashlib

        request = (await reader.readuntil(b"\r\n\r\n")).decode()
        key = next(
            line.split(": ")[1]
            for line in request.split("\r\n")
            if line.lower().startswith("sec-websocket-key")
        )
        accept = base64.b64encode(
            hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
        )
        writer.write(
            b"HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
            + accept
            + b"\r\n\r\n"
        )
        await reader.read()
        writer.close()

    workspace.settings(publish_timeout=0.2, retry={"attempts": 1})
    server = await asyncio.start_server(frozen, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    workspace.write("events/a.json", document(server={"host": f"127.0.0.1:{port}", "protocol": "ws"}))
    async with server, workspace.open() as app:
        with pytest.raises(CallTimeoutError, match=r"did not acknowledge the event within 0\.2 s"):
            await app.call("emit", id=1)


async def test_a_path_that_is_not_there_is_named(workspace: Workspace) -> None:
    def refuse(connection: ServerConnection, _: Any) -> Any:
        return connection.respond(404, "no")

    async with serve(lambda _: asyncio.sleep(0), "127.0.0.1", 0, process_request=refuse) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        workspace.write("events/a.json", document(server={"host": f"127.0.0.1:{port}", "protocol": "ws"}))
        async with workspace.open() as app:
            with pytest.raises(NotFoundError, match="404"):
                await app.call("emit", id=1)
