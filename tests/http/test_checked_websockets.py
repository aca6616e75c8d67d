"""WebSockets whose address somebody else chose: connected to what was checked, and TLS asks for the name."""

import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from websockets.asyncio.server import ServerConnection, serve

from servers.echo_server import PUBLIC
from spindle.domain.call import Call
from spindle.domain.event import Event
from spindle.domain.identity import NO_CREDENTIAL
from spindle.domain.tool import Tool, ToolSpec
from spindle.errors import ConfigurationError, ConnectionFailedError
from spindle.http.failures import InsideError
from spindle.http.websocket import open_websocket
from spindle.sources.events.links.port import Outgoing
from spindle.sources.events.links.target import Target
from spindle.sources.events.links.websocket import WebSocketLink
from spindle.sources.events.servers import Endpoint
from spindle.sources.utcp.config import UtcpConfig
from spindle.sources.utcp.session import UtcpSession
from spindle.sources.websocket.config import Request, WebSocketConfig
from spindle.sources.websocket.session import WebSocketSession


class Service:
    """Answers every message with itself, and keeps at which of its addresses each client came."""

    def __init__(self) -> None:
        self.port = 0
        self.reached: list[str] = []

    async def handle(self, connection: ServerConnection) -> None:
        self.reached.append(connection.local_address[0])
        async for message in connection:
            await connection.send(message)


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    made = Service()
    async with serve(made.handle, "127.0.0.1", 0) as inside:
        made.port = next(iter(inside.sockets)).getsockname()[1]
        async with serve(made.handle, PUBLIC, made.port):
            yield made


async def directly(url: str, root: Path) -> None:
    connection = await open_websocket(
        "s", url, NO_CREDENTIAL, headers={}, max_size=1000, keep_alive=None, public_only=True
    )
    await connection.close()


async def as_source(url: str, root: Path) -> None:
    config = WebSocketConfig(url=url, format="text", requests={"r": Request(message="hello")})
    async with WebSocketSession("s", config, NO_CREDENTIAL, print, public_only=True) as session:
        await session.invoke(Tool("s.r", "s", "websocket", ToolSpec("r"), ""), Call("s.r", {}))


async def by_manual(url: str, root: Path) -> None:
    metadata = {
        "call_template_type": "websocket",
        "manuals": ["s"],
        "remote": True,
        "template": {"call_template_type": "websocket", "url": url},
    }
    config = UtcpConfig(document="m.json", allowed_protocols=("websocket",), allow_insecure=True)
    async with UtcpSession("s", config, root, NO_CREDENTIAL, print) as session:
        await session.invoke(Tool("s.r", "s", "utcp", ToolSpec("r", metadata=metadata), ""), Call("s.r", {}))


async def as_event(url: str, root: Path) -> None:
    target = Target("s", Endpoint("main", "ws", url), NO_CREDENTIAL, 30, 30, 1000, public_only=True)
    async with contextlib.AsyncExitStack() as stack:
        link = WebSocketLink(target)
        stack.push_async_callback(link.close)
        await link.publish(Outgoing(Event("t", "s")))


WAYS: dict[str, Callable[[str, Path], Awaitable[None]]] = {
    "directly": directly, "a source": as_source, "a manual": by_manual, "an event": as_event,
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
async def test_a_name_that_changes_its_address_is_connected_to_the_one_that_was_checked(
    way: str, service: Service, names: dict[str, list[str]], tmp_path: Path
) -> None:
    names["changing.test"] = [PUBLIC, "127.0.0.1"]
    await WAYS[way](f"ws://changing.test:{service.port}/", tmp_path)
    assert service.reached == [PUBLIC]


@pytest.mark.parametrize("way", WAYS)
async def test_a_name_that_leads_inside_is_not_connected(
    way: str, service: Service, names: dict[str, list[str]], tmp_path: Path
) -> None:
    names["inside.test"] = ["127.0.0.1"]
    with pytest.raises((ConfigurationError, InsideError), match="on this machine or a private network"):
        await WAYS[way](f"ws://inside.test:{service.port}/", tmp_path)
    assert service.reached == []


async def test_a_name_without_an_address_cannot_be_reached(names: dict[str, list[str]]) -> None:
    with pytest.raises(ConnectionFailedError, match=r"there is no host nowhere\.invalid"):
        await directly("ws://nowhere.invalid/", Path())


async def test_the_next_address_is_tried_when_one_does_not_answer(
    service: Service, names: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from spindle.http import addresses

    async def addresses_of(host: str) -> list[str]:
        return ["127.0.0.3", PUBLIC]

    monkeypatch.setattr(addresses, "is_inside", lambda _: False)
    monkeypatch.setattr(addresses, "addresses_of", addresses_of)
    await directly(f"ws://two.test:{service.port}/", Path())
    assert service.reached == [PUBLIC]


async def test_tls_asks_for_the_name_and_not_for_the_address(
    certificate: tuple[ssl.SSLContext, ssl.SSLContext],
    names: dict[str, list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    serving, trusting = certificate
    monkeypatch.setattr(ssl, "create_default_context", lambda *_, **__: trusting)
    names |= {"good.test": [PUBLIC], "other.test": [PUBLIC]}
    made = Service()
    async with serve(made.handle, PUBLIC, 0, ssl=serving) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        await directly(f"wss://good.test:{port}/", Path())
        with pytest.raises(ConnectionFailedError, match=r"certificate of 's'.*other\.test"):
            await directly(f"wss://other.test:{port}/", Path())
    assert made.reached == [PUBLIC]
