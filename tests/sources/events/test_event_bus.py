"""Events inside one process: from tools, from Python, from several threads."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import pytest
from event_documents import Workspace, document

import spindle
from servers.running import PATIENCE
from spindle.errors import InvalidArgumentsError, ServerError
from spindle.sources.events import bus


async def next_of(events: Any) -> spindle.Event:
    return await asyncio.wait_for(anext(events), PATIENCE)


async def test_an_event_is_what_cloudevents_says(workspace: Workspace) -> None:
    workspace.write("events/a.json", document(id="urn:example:shop"))
    async with workspace.open() as app:
        heard = app.events("orders/*")
        result = await app.call("emit", id=7)
        [record] = await app.history()
        event = await next_of(heard)
    assert event.attributes() == {
        "specversion": "1.0",
        "id": record.key,
        "source": "urn:example:shop",
        "type": "Placed",
        "subject": "orders/placed",
        "time": event.time,
        "datacontenttype": "application/json",
    }
    assert event.data == {"id": 7}
    assert result.structured == {
        "id": record.key,
        "type": "Placed",
        "channel": "orders/placed",
        "server": "memory",
        "acknowledged": {"subscribers": 1},
    }


async def test_a_payload_that_does_not_fit_is_not_emitted(workspace: Workspace) -> None:
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    workspace.write("events/a.json", document(payload=schema))
    async with workspace.open() as app:
        heard = app.events("*")
        for wrong in ({"id": "seven"}, {}, {"id": None}):
            with pytest.raises(InvalidArgumentsError, match="id"):
                await app.call("emit", wrong)
        await app.call("emit", id=7)
        assert (await next_of(heard)).data == {"id": 7}


async def test_a_pattern_is_for_channels_and_types(workspace: Workspace) -> None:
    async with workspace.open() as app:
        by_channel, by_type, all_of_them = app.events("orders/*"), app.events("x.y"), app.events()
        await app.emit("users/new", 1, type="x.y")
        await app.emit("orders/new", 2)
        assert (await next_of(by_channel)).data == 2
        assert (await next_of(by_type)).data == 1
        assert [(await next_of(all_of_them)).data for _ in range(2)] == [1, 2]


async def test_waiting_gives_the_first_event_that_passes_the_filter(workspace: Workspace) -> None:
    workspace.write("events/a.json", document())
    async with workspace.open() as app:
        await app.sync()
        waiting = asyncio.create_task(app.call("wait", filter={"order.id": 2, "lines.0": "a"}))
        result: dict[str, Any] = {}
        # The tool listens once the acknowledgement names a subscriber.
        while not result.get("acknowledged", {}).get("subscribers"):
            result = (await app.call("emit", order={"id": 1}, lines=["a"])).structured
        await app.call("emit", order={"id": 2})
        await app.call("emit", order={"id": 2}, lines=["a"], n=3)
        event = (await asyncio.wait_for(waiting, PATIENCE)).structured
    assert event["data"] == {"order": {"id": 2}, "lines": ["a"], "n": 3}
    assert event["type"] == "Placed"


async def test_no_event_in_time_is_an_answer(workspace: Workspace) -> None:
    workspace.write("events/a.json", document())
    async with workspace.open() as app:
        result = await app.call("wait", timeout=0.01)
    assert result.is_error
    assert result.text == "no event came on orders/placed within 0.01 s"
    assert result.category == "timeout"


async def test_a_question_gets_its_answer_and_no_other(workspace: Workspace) -> None:
    content = document()
    content["channels"]["answers"] = {"address": "answers"}
    content["operations"]["emit"]["reply"] = {"channel": {"$ref": "#/channels/answers"}}
    workspace.write("events/a.json", content)
    async with workspace.open() as app:

        async def answer(questions: Any) -> None:
            two = [await next_of(questions) for _ in range(2)]
            for question in reversed(two):
                same = {"correlationid": question.extensions["correlationid"]}
                await app.emit(question.extensions["replyto"], question.data["n"] * 10, extensions=same)

        answering = asyncio.create_task(answer(app.events("orders/*")))
        results = await asyncio.gather(app.call("emit", n=1), app.call("emit", n=2))
        await answering
    assert [result.structured["data"] for result in results] == [10, 20]


async def test_an_answer_can_come_to_an_address_of_its_own(workspace: Workspace) -> None:
    content = document()
    content["operations"]["emit"]["reply"] = {"address": {"location": "$message.payload#/reply/to"}}
    workspace.write("events/a.json", content)
    async with workspace.open() as app:

        async def answer(questions: Any) -> None:
            question = await next_of(questions)
            await app.emit(question.data["reply"]["to"], "pong")

        answering = asyncio.create_task(answer(app.events("orders/*")))
        result = await app.call("emit", text="ping")
        await answering
    assert result.structured["data"] == "pong"


async def test_events_reach_subscribers_in_other_threads(workspace: Workspace) -> None:
    got: list[Any] = []
    ready = threading.Event()

    def read() -> None:
        with spindle.open(workspace.root) as other:
            events = other.events("a", timeout=PATIENCE)
            ready.set()
            got.append(next(events).data)

    thread = threading.Thread(target=read)
    thread.start()
    async with workspace.open() as app:
        await asyncio.to_thread(ready.wait, PATIENCE)
        await app.emit("a", {"n": 1})
        await asyncio.to_thread(thread.join, PATIENCE)
    assert got == [{"n": 1}]


def test_blocking_code_hears_what_it_emits_and_stops_when_nothing_comes(workspace: Workspace) -> None:
    with spindle.open(workspace.root) as app:
        events = app.events("a", timeout=0.05)
        app.emit("a", 1)
        app.emit("b", 2)
        assert [event.data for event in events] == [1]


async def test_two_workspaces_do_not_hear_each_other(workspace: Workspace, tmp_path: Any) -> None:
    other = tmp_path / "other"
    other.mkdir()
    async with workspace.open() as app, spindle.open(other) as elsewhere:
        heard = app.events()
        await elsewhere.emit("a", 1)
        await app.emit("a", 2)
        assert (await next_of(heard)).data == 2


async def test_a_subscription_ends_with_its_workspace_or_when_closed(workspace: Workspace) -> None:
    async with workspace.open() as app:
        async with app.events() as closed:
            pass
        assert [event async for event in closed] == []
        left_open = app.events()
        await app.emit("a", 1)
    assert [event.data async for event in left_open] == [1]


async def test_a_forgotten_subscription_is_no_subscriber(workspace: Workspace) -> None:
    workspace.write("events/a.json", document())
    async with workspace.open() as app:
        app.events()
        gc.collect()
        assert (await app.call("emit")).structured["acknowledged"] == {"subscribers": 0}


async def test_a_subscriber_that_does_not_read_is_an_error_for_who_emits(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus, "MAX_WAITING", 3)
    async with workspace.open() as app:
        slow, quick = app.events("a"), app.events("*")
        for number in range(3):
            await app.emit("a", number)
            assert (await next_of(quick)).data == number
        with pytest.raises(ServerError, match="3 events wait"):
            await app.emit("a", 3)
        assert quick.waiting == 0, "one who could not have it means that nobody got it"
        assert [(await next_of(slow)).data for _ in range(3)] == [0, 1, 2]
