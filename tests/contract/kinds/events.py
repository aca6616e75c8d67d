"""Events: on the bus of this process, as webhooks, and over a broker."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any, ClassVar, Self

import pytest

from contract.kinds.kind import Kind, Request
from contract.kinds.web import Web
from contract.meeting import Meeting
from servers.brokers import Broker
from servers.running import PATIENCE, until
from spindle.domain.call import Result
from spindle.domain.event import Event
from spindle.domain.identity import Credential
from spindle.sources.events.bus import bus_of


def document(server: dict[str, Any] | None, *, asks: tuple[str, ...], waits: tuple[str, ...] = ()) -> str:
    """AsyncAPI with a channel for each tool: some ask for an answer, some wait for an event."""
    operations: dict[str, Any] = {}
    for name in (*asks, *waits):
        channel = {"channel": {"$ref": f"#/channels/{name}"}, "x-agent-tool": True}
        operations[name] = (
            {"action": "send", "reply": {}, **channel} if name in asks else {"action": "receive", **channel}
        )
    found: dict[str, Any] = {
        "asyncapi": "3.0.0",
        "info": {"title": "T", "version": "1"},
        "channels": {
            name: {"address": name, "messages": {"M": {"payload": {"type": "object"}}}} for name in operations
        },
        "operations": operations,
    }
    return json.dumps(found | ({"servers": {"main": server}} if server else {}))


class Webhooks(Web):
    """An event is one request to the service, and its response is the answer."""

    repeatable = True

    @property
    def settings(self) -> dict[str, Any]:
        server = {"host": self.service.host, "protocol": "http"}
        (self.root / "api.json").write_text(document(server, asks=tuple(sorted(self.tools))))
        return {"kind": "events", "path": "api.json"}

    def said(self, result: Result) -> str:
        return result.structured["data"]["text"]


class Answered(Kind):
    """Questions by event, which somebody who listens answers. What waits in vain says so."""

    complaint = "no event came on fail"

    def fail(self) -> Request:
        return Request("fail", {"timeout": 0.001})

    def said(self, result: Result) -> str:
        return result.structured["data"]["text"]


class MemoryEvents(Answered):
    tools = frozenset({"echo", "fail", "hang"})
    lacks: ClassVar = {
        "lost link": "the bus is part of this process",
        "credentials": "the bus of a workspace asks for none",
    }

    def __init__(self, request: pytest.FixtureRequest, root: Path) -> None:
        super().__init__(request, root)
        self._bus = bus_of(root)
        self._meeting = Meeting()
        self._answering: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._answering = asyncio.create_task(self._answer(self._bus.subscribe("echo")))
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._answering is not None
        self._answering.cancel()
        await asyncio.gather(self._answering, return_exceptions=True)

    @property
    def settings(self) -> dict[str, Any]:
        (self.root / "api.json").write_text(document(None, asks=("echo",), waits=("fail", "hang")))
        return {"kind": "events", "path": "api.json"}

    def hang(self) -> Request:
        return Request("hang", {"filter": {"never": True}})

    async def _answer(self, questions: Any) -> None:
        async with asyncio.TaskGroup() as tasks:
            async for question in questions:
                tasks.create_task(self._reply(question))

    async def _reply(self, question: Event) -> None:
        await self._meeting.join()
        address = question.extensions["replyto"]
        self._bus.publish(Event("answer", "test", data=question.data, channel=address))

    def _waiting(self) -> int:
        return self._bus.publish(Event("ping", "test", data={}, channel="hang"))

    async def begun(self) -> None:
        await until(lambda: self._waiting() == 1)

    async def over(self) -> None:
        await until(lambda: self._waiting() == 0)

    def shuffle(self, count: int) -> None:
        self._meeting.expect(count)


class NatsEvents(Answered):
    """A broker with an account for each user, in which somebody else answers."""

    def __init__(self, request: pytest.FixtureRequest, root: Path) -> None:
        super().__init__(request, root)
        self._broker: Broker = request.getfixturevalue("nats_with_accounts")
        self._meeting = Meeting()
        self._hanging: asyncio.Future[tuple[Any, str]] = asyncio.get_running_loop().create_future()
        self._clients: list[Any] = []

    async def __aenter__(self) -> Self:
        await self.restore()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._leave()
        self._broker.revive()

    async def _leave(self) -> None:
        for client in self._clients:
            await client.close()
        self._clients.clear()

    async def restore(self) -> None:
        import nats

        self._broker.revive()

        async def quiet(*_: Any) -> None:
            pass  # it is killed on purpose

        for who in ("ann", "bob", "local"):
            address = f"nats://{who}:{who}-token@{self._broker.host}"
            client = await nats.connect(address, allow_reconnect=False, error_cb=quiet)
            self._clients.append(client)

            async def whoami(message: Any, who: str = who) -> None:
                await _say(message, who)

            async def hang(message: Any, client: Any = client) -> None:
                self._hanging.set_result((client, message.reply))

            for subject, answer in (("whoami", whoami), ("hang", hang), ("echo", self._echo)):
                await client.subscribe(subject, cb=answer)
            await client.flush()

    async def lose(self) -> None:
        self._broker.kill()
        await self._leave()

    @property
    def settings(self) -> dict[str, Any]:
        server = {"host": self._broker.host, "protocol": "nats"}
        (self.root / "api.json").write_text(
            document(server, asks=("echo", "hang", "whoami"), waits=("fail",))
        )
        return {"kind": "events", "path": "api.json"}

    async def _echo(self, message: Any) -> None:
        given = json.loads(message.data)["data"]["text"]

        async def later() -> None:
            await self._meeting.join()
            await _say(message, given)

        # Not here: the library hands over one message after the other.
        asyncio.create_task(later())  # noqa: RUF006

    async def begun(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await asyncio.shield(self._hanging)

    async def over(self) -> None:
        from nats.errors import NoRespondersError

        client, address = self._hanging.result()
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    await client.request(address, b"{}", timeout=0.01)
                except NoRespondersError:
                    return
                except TimeoutError:
                    continue

    def shuffle(self, count: int) -> None:
        self._meeting.expect(count)

    def credential(self, who: str) -> Credential:
        pair = base64.b64encode(f"{who}:{who}-token".encode()).decode()
        return Credential(headers=(("Authorization", f"Basic {pair}"),))

    def shown(self, who: str) -> str:
        return who


async def _say(message: Any, text: str) -> None:
    await message.respond(json.dumps({"text": text}).encode())
