"""`spindle events listen`, as a process beside a real broker."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import httpx2

import spindle as package
from servers import brokers, warm
from servers.running import PATIENCE


def document(server: dict[str, Any] | None, address: str = "orders.{id}") -> str:
    reference = {"$ref": "#/channels/c"}
    content: dict[str, Any] = {
        "asyncapi": "3.0.0",
        "channels": {"c": {"address": address, "messages": {"Placed": {"payload": {"type": "object"}}}}},
        "operations": {"emit": {"action": "send", "channel": reference, "x-agent-tool": True}},
    }
    if server:
        content["servers"] = {"main": server}
    return json.dumps(content)


class Listener:
    """A process that listens; made with `await Listener.start(...)`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.places: list[str] = []

    @classmethod
    async def start(cls, *words: str) -> Listener:
        command = [warm.SPINDLE, "events", "listen", *words]
        process = await asyncio.create_subprocess_exec(
            *command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        made = cls(process)
        assert process.stderr is not None
        while not made.places:
            line = (await asyncio.wait_for(process.stderr.readline(), PATIENCE)).decode()
            assert line, await process.wait()
            if line.startswith("listening to "):
                made.places.append(line.strip())
        return made

    async def result(self) -> tuple[int, str, str]:
        out, err = await asyncio.wait_for(self.process.communicate(), PATIENCE)
        return self.process.returncode or 0, out.decode(), err.decode()


async def test_events_of_a_broker_are_printed_as_they_come(workspace, tmp_path: Path):
    with brokers.nats(tmp_path / "broker") as broker:
        workspace.write("events/a.json", document({"host": broker.host, "protocol": "nats"}))
        listener = await Listener.start("orders.*", "--count", "2", "--json")
        assert listener.places == [f"listening to orders.* at main (nats://{broker.host})"]
        async with package.open(workspace.root) as app:
            await app.call("emit", id="a", n=1)
            await app.call("emit", id="b", n=2)
        code, out, err = await listener.result()
    assert (code, err) == (0, "")
    events = [json.loads(line) for line in out.splitlines()]
    assert [(event["channel"], event["data"], event["type"]) for event in events] == [
        ("orders.a", {"n": 1}, "Placed"),
        ("orders.b", {"n": 2}, "Placed"),
    ]


async def test_a_broker_that_dies_ends_it_with_an_error(workspace, tmp_path: Path):
    with brokers.nats(tmp_path / "broker") as broker:
        workspace.write("events/a.json", document({"host": broker.host, "protocol": "nats"}))
        listener = await Listener.start()
        broker.kill()
        code, _, err = await listener.result()
    assert code == 7
    assert "lost main" in err


async def test_webhooks_are_received_on_a_port_that_is_free(workspace):
    workspace.write("events/a.json", document({"host": "example.com", "protocol": "https"}, "orders/{id}"))
    listener = await Listener.start("orders/*", "--webhook", "127.0.0.1:0", "--count", "1")
    url = listener.places[0].removeprefix("listening to webhooks at ")
    async with httpx2.AsyncClient() as client:
        for path in ("users/1", "orders/7"):
            sent = await client.post(f"{url}/{path}", json={"n": 7})
            assert sent.status_code == 202
    code, out, _ = await listener.result()
    assert code == 0
    assert out.split() == ["orders/7", '{"n":7}']


def test_what_stays_in_another_process_cannot_be_heard(workspace, spindle):
    workspace.write("events/a.json", document(None))
    done = spindle("events", "listen")
    assert done.code == 2
    assert "its events stay in the process that emits them" in done.err
    assert "there is nothing to listen to" in done.err


def test_webhooks_need_a_place(workspace, spindle):
    workspace.write("events/a.json", document({"host": "example.com", "protocol": "https"}))
    done = spindle("events", "listen")
    assert done.code == 2
    assert "--webhook 127.0.0.1:PORT" in done.err


def test_without_documents_the_way_out_is_shown(workspace, spindle):
    done = spindle("events", "listen")
    assert done.code == 2
    assert "put an AsyncAPI document into the folder events/" in done.err


def test_a_place_that_is_none_is_a_mistake(workspace, spindle):
    done = spindle("events", "listen", "--webhook", "8787")
    assert done.code == 2
    assert "must be a host and a port" in done.err


def test_too_few_events_in_time_are_an_error_and_none_at_all_are_not(workspace, spindle, tmp_path: Path):
    with brokers.nats(tmp_path / "broker") as broker:
        workspace.write("events/a.json", document({"host": broker.host, "protocol": "nats"}))
        done = spindle("events", "listen", "--timeout", "0.1")
        assert (done.code, done.out) == (0, "")
        done = spindle("events", "listen", "--timeout", "0.1", "--count", "1")
    assert done.code != 0
    assert "0 of 1 events came within 0.1 s" in done.err


def test_a_source_of_another_kind_has_no_events(workspace, spindle):
    workspace.write("tools/a.py", "")
    done = spindle("events", "listen", "--source", "tools")
    assert "has no events" in done.err


def test_the_folder_s_name_cannot_be_taken_or_removed(workspace, spindle):
    workspace.write("events/a.json", document(None))
    assert "'events' is the name of the workspace's own events" in spindle("add", "events", "--", "x").err
    assert "'events' is the workspace's own folder" in spindle("remove", "events").err
