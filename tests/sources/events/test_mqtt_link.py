"""A link to an MQTT broker, with one that says no more than that a client may come in."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest

from servers.running import PATIENCE
from spindle.sources.events.links import broker
from spindle.sources.events.links.faststream_insides import client_of
from spindle.sources.events.links.pool import LinkPool

pytest.importorskip("faststream.mqtt", reason="needs the extra 'mqtt'")

from spindle.sources.events.links.mqtt import MqttLink

COME_IN = bytes([0x20, 0x03, 0x00, 0x00, 0x00])
"""CONNACK of MQTT 5, without properties."""


@contextlib.asynccontextmanager
async def quiet_broker() -> AsyncGenerator[tuple[int, asyncio.Event]]:
    """Its port, and whether its client has hung up."""
    left = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(COME_IN)
        with contextlib.suppress(ConnectionError):
            while await reader.read(1000):
                pass
        left.set()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1], left


@pytest.mark.parametrize("is_cancelled", [True, False], ids=["cancelled", "in time"])
async def test_a_broker_that_does_not_let_go_is_left_all_the_same(
    is_cancelled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping = asyncio.Event()

    async def stop(*_: Any) -> None:
        stopping.set()
        await asyncio.Event().wait()

    async with asyncio.timeout(PATIENCE), quiet_broker() as (port, left):
        url = f"mqtt://127.0.0.1:{port}"
        endpoint = SimpleNamespace(parts=urlsplit(url), secure=False, version="5", name="b", shown=url)
        target: Any = SimpleNamespace(
            endpoint=endpoint,
            login=None,
            public_only=False,
            connect_timeout=PATIENCE,
            publish_timeout=PATIENCE,
        )
        link = MqttLink(target)
        await link.connect()
        client = client_of(link.broker)
        monkeypatch.setattr(link.broker, "stop", stop)
        if is_cancelled:
            closing = asyncio.create_task(link.close())
            await stopping.wait()
            closing.cancel()
            await asyncio.gather(closing, return_exceptions=True)
        else:
            monkeypatch.setattr(broker, "CLOSE_TIMEOUT", 0.01)
            await link.close()
        await left.wait()
        with contextlib.suppress(Exception):
            await client.disconnect()


class Leaving:
    """A link that takes long to leave, or not."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.began = False

    async def close(self) -> None:
        self.began = True
        await asyncio.sleep(self.seconds)


async def test_all_links_are_left_by_who_is_cancelled_meanwhile() -> None:
    links = {"one": Leaving(0), "other": Leaving(PATIENCE)}
    pool = LinkPool.__new__(LinkPool)
    pool._links = links  # type: ignore[assignment]

    async def leave() -> None:
        me = asyncio.current_task()
        assert me is not None
        me.cancel()
        await pool.close()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(leave())
    assert [link.began for link in links.values()] == [True, True]
