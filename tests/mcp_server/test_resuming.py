"""Streams of the handshake era that are gone on with after a lost connection: in the same process, in
another, and after the end of the one that had them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

import spindle
from mcp_server.test_http_serving import JSON, handshake, initialize, rpc, shout
from mcp_server.test_sessions_anywhere import ANN, EACH_STORE, TOKENS, as_, events, one_of, place, stream, two
from servers.running import PATIENCE
from servers.serving import served
from spindle import Context, tool
from spindle.auth.details import DetailSealer
from spindle.auth.keys import new_key
from spindle.catalog.diff import SyncReport
from spindle.mcp_protocol.errors import McpError
from spindle.mcp_server.event_ids import EventId, read_event_id
from spindle.mcp_server.exchange import PostExchange
from spindle.mcp_server.kept_answers import LOST, KeptAnswer, KeptAnswers, Moved, Waiting
from spindle.mcp_server.resuming import Resuming
from spindle.mcp_server.suspended_state import mark_of_question
from spindle.stores.sqlite import SqliteStore

__all__ = ["place"]
ASK = rpc("tools/call", 5, name="test_elicitation", arguments={"message": "Who?"})
SECRET = "a word that nobody else may read"


def after(event: str, headers: dict[str, str]) -> dict[str, str]:
    return {**headers, "last-event-id": event}


def answer(question: Any, result: Any = ANN) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": question["id"], "result": result}


async def question_of(http: httpx2.AsyncClient, url: str, headers: dict[str, str], call: Any = ASK) -> Any:
    """The question of a call whose client is lost then."""
    async with stream(http, url, headers, call) as messages:
        question = await anext(messages)
        assert question["method"] == "elicitation/create"
        return question


@EACH_STORE
async def test_the_rest_of_an_answer_comes_from_whichever_process_is_asked(
    tmp_path: Path, place: str | None
) -> None:
    async with two(tmp_path, place) as (http, one, other, _), asyncio.timeout(2 * PATIENCE):
        for number, resumed in enumerate((one, other), 5):
            headers = await handshake(http, one, elicitation={})
            question = await question_of(http, one, headers, {**ASK, "id": number})
            assert (await http.post(other, json=answer(question), headers=headers)).status_code == 202
            async with stream(http, resumed, after(question["event"], headers)) as messages:
                done = await anext(messages)
                assert done["id"] == number
                assert "ann@example.com" in json.dumps(done["result"])
                assert [item async for item in messages] == [], "an answer ends its stream"
            async with stream(http, resumed, after(done["event"], headers)) as messages:
                assert [item async for item in messages] == [], "all of it was seen"
            before = read_event_id(question["event"])
            assert before is not None
            first = before._replace(number=0).text()
            async with stream(http, resumed, after(first, headers)) as messages:
                assert [item["event"] async for item in messages] == [question["event"], done["event"]]


@EACH_STORE
async def test_an_answer_that_nobody_took_outlives_its_process(tmp_path: Path, place: str | None) -> None:
    said = {"action": "accept", "content": {"username": SECRET, "email": "x"}}
    async with httpx2.AsyncClient(timeout=PATIENCE) as http, asyncio.timeout(2 * PATIENCE):
        async with one_of(tmp_path, place) as (url, _):
            headers = await handshake(http, url, elicitation={})
            question = await question_of(http, url, headers)
            assert (await http.post(url, json=answer(question, said), headers=headers)).status_code == 202
            async with stream(http, url, after(question["event"], headers)) as messages:
                assert SECRET in json.dumps(await anext(messages))
        async with one_of(tmp_path, place) as (url, _):
            async with stream(http, url, after(question["event"], headers)) as messages:
                (done,) = [item async for item in messages]
            assert done["id"] == 5
            assert SECRET in json.dumps(done["result"])
            assert (await http.delete(url, headers=headers)).status_code == 200
    for file in tmp_path.rglob("*"):
        assert file.is_dir() or SECRET.encode() not in file.read_bytes()


@EACH_STORE
@pytest.mark.parametrize("is_answered", [True, False])
async def test_a_call_that_asked_in_a_process_that_is_gone_is_made_again_with_its_answers(
    tmp_path: Path, place: str | None, is_answered: bool
) -> None:
    async with httpx2.AsyncClient(timeout=PATIENCE) as http, asyncio.timeout(2 * PATIENCE):
        async with one_of(tmp_path, place, shutdown_timeout=1) as (url, _):
            headers = await handshake(http, url, elicitation={})
            question = await question_of(http, url, headers)
        async with one_of(tmp_path, place) as (url, _):
            if is_answered:
                assert (await http.post(url, json=answer(question), headers=headers)).status_code == 202
            async with stream(http, url, after(question["event"], headers)) as messages:
                if not is_answered:
                    again = await anext(messages)
                    assert again["params"] == question["params"]
                    sent = await http.post(url, json=answer(again), headers=headers)
                    assert sent.status_code == 202
                done = await anext(messages)
                assert done["id"] == 5
                assert "ann@example.com" in json.dumps(done["result"])


@EACH_STORE
@pytest.mark.parametrize("has_asked", [True, False])
async def test_a_call_outlives_one_process_after_the_other(
    tmp_path: Path, place: str | None, has_asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one ends before the client has heard of it, be it that it has asked again or not."""
    taken = asyncio.Event()

    async def stand_still(*_: Any) -> Any:
        taken.set()
        await asyncio.Event().wait()

    async with httpx2.AsyncClient(timeout=PATIENCE) as http, asyncio.timeout(3 * PATIENCE):
        async with one_of(tmp_path, place, shutdown_timeout=1) as (url, _):
            headers = await handshake(http, url, elicitation={})
            question = await question_of(http, url, headers)
        async with one_of(tmp_path, place, shutdown_timeout=1) as (url, _):
            with monkeypatch.context() as patch:
                if not has_asked:
                    patch.setattr(KeptAnswer, "ask", stand_still)
                async with stream(http, url, after(question["event"], headers)) as messages:
                    again = await anext(messages) if has_asked else await taken.wait()
                if has_asked:
                    async with stream(http, url, after(question["event"], headers)) as messages:
                        assert await anext(messages) == again, "it is taken over once"
        async with (
            one_of(tmp_path, place) as (url, _),
            stream(http, url, after(question["event"], headers)) as messages,
        ):
            last = await anext(messages)
            assert last["params"] == question["params"]
            assert (await http.post(url, json=answer(last), headers=headers)).status_code == 202
            done = await anext(messages)
            assert done["id"] == 5
            assert "ann@example.com" in json.dumps(done["result"])


@EACH_STORE
@pytest.mark.parametrize("is_answered", [True, False])
async def test_what_a_process_stored_between_a_look_and_its_death_is_found(
    tmp_path: Path, place: str | None, is_answered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored, looks = KeptAnswers.stored, 0

    async def as_before(self: KeptAnswers, *about: Any) -> Any:
        nonlocal looks
        looks += 1
        return None if looks == 1 else await stored(self, *about)

    async with httpx2.AsyncClient(timeout=PATIENCE) as http, asyncio.timeout(2 * PATIENCE):
        async with one_of(tmp_path, place, shutdown_timeout=1) as (url, _):
            headers = await handshake(http, url, elicitation={})
            question = await question_of(http, url, headers)
            if is_answered:
                assert (await http.post(url, json=answer(question), headers=headers)).status_code == 202
                async with stream(http, url, after(question["event"], headers)) as messages:
                    await anext(messages)
        async with one_of(tmp_path, place) as (url, _):
            monkeypatch.setattr(KeptAnswers, "stored", as_before)
            async with stream(http, url, after(question["event"], headers)) as messages:
                if not is_answered:
                    again = await anext(messages)
                    assert again["params"] == question["params"]
                    assert (await http.post(url, json=answer(again), headers=headers)).status_code == 202
                done = await anext(messages)
    assert looks > 1
    assert done["id"] == 5
    assert "ann@example.com" in json.dumps(done["result"])


async def test_what_was_heard_of_a_process_before_its_death_is_not_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored, looks = KeptAnswers.stored, 0

    async def as_before(self: KeptAnswers, *about: Any) -> Any:
        nonlocal looks
        looks += 1
        return None if looks == 1 else await stored(self, *about)

    async def until_death(self: Any, key: Any, last: EventId) -> AsyncGenerator[bytes]:
        frames: Any = await stored(self._kept, key, last.process)
        yield frames[0][1]

    async with httpx2.AsyncClient(timeout=PATIENCE) as http, asyncio.timeout(2 * PATIENCE):
        async with one_of(tmp_path, shutdown_timeout=1) as (url, _):
            headers = await handshake(http, url, elicitation={})
            question = await question_of(http, url, headers)
            assert (await http.post(url, json=answer(question), headers=headers)).status_code == 202
            async with stream(http, url, after(question["event"], headers)) as messages:
                done = await anext(messages)
        first = read_event_id(question["event"])
        assert first is not None
        async with one_of(tmp_path) as (url, _):
            monkeypatch.setattr(KeptAnswers, "stored", as_before)
            monkeypatch.setattr(Resuming, "_elsewhere", until_death)
            async with stream(http, url, after(first._replace(number=0).text(), headers)) as messages:
                assert [item["event"] async for item in messages] == [question["event"], done["event"]]


async def test_a_client_is_watched_from_the_first_event_on() -> None:
    """What is kept of the answer depends on whether it has left; not every request has a timer for that."""

    async def left() -> Any:
        return {"type": "http.disconnect"}

    async def heard(_: Any) -> None:
        pass

    exchange = PostExchange(left, heard, streams=True, cancels=False)
    await exchange.event({"jsonrpc": "2.0", "method": "notifications/message"})
    async with asyncio.timeout(PATIENCE):
        while not exchange.is_gone:
            await asyncio.sleep(0)
    await exchange.stop_watching()


async def test_a_client_is_watched_once() -> None:
    """Its stream begins, and then the timer rings too."""

    async def stay() -> Any:
        await asyncio.Event().wait()

    async def heard(_: Any) -> None:
        pass

    before = asyncio.all_tasks()
    exchange = PostExchange(stay, heard, streams=True, cancels=False)
    await exchange.event({"jsonrpc": "2.0", "method": "notifications/message"})
    exchange.ring()
    watching = asyncio.all_tasks() - before
    assert len(watching) == 1
    await exchange.stop_watching()
    assert all(task.done() for task in watching)


async def test_a_process_that_counted_as_gone_does_not_go_on_beside_another(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "state.db") as store:
        key = new_key()
        sealer = DetailSealer(lambda: [key])
        first, second, third = (KeptAnswers(name, store, sealer, time.time) for name in ("a1", "b2", "c3"))
        asked = Waiting({"id": 5}, [], "q1", "mark").entry()
        saved = await first.save(("session", "1"), asked)
        assert saved is not None
        session: Any = SimpleNamespace(facts=SimpleNamespace(key="session"), questions=None)
        stalled, kept = (keeper.begin(session, {"id": 5}) for keeper in (second, third))
        assert await second.take(("session", "1"), "a1", stalled)
        assert await third.take(("session", "1"), "a1", kept)
        assert not await first.forget(saved), "the one that asked is told too"
        mark = mark_of_question("elicitation/create", None)
        stalled.given, kept.given = [(mark, {"n": 1})], [(mark, {"n": 2})]
        with pytest.raises(McpError, match="another process goes on"):
            await stalled.ask("elicitation/create", None, None)  # type: ignore[arg-type]
        assert await kept.ask("elicitation/create", None, None) == {"n": 2}  # type: ignore[arg-type]
        assert await second.stored(("session", "1"), "a1") == Moved("c3", "1")


async def test_a_client_is_told_that_an_answer_is_lost(tmp_path: Path) -> None:
    async with one_of(tmp_path) as (url, _), httpx2.AsyncClient(timeout=PATIENCE) as http:
        headers = await handshake(http, url)
        gone = EventId("0123456789ab", "7", 3, "my request").text()
        async with asyncio.timeout(PATIENCE), stream(http, url, after(gone, headers)) as messages:
            (lost,) = [item async for item in messages]
        assert lost["id"] == "my request"
        assert lost["error"]["message"] == LOST


@EACH_STORE
async def test_nobody_reads_the_answer_of_another_session(tmp_path: Path, place: str | None) -> None:
    async with two(tmp_path, place, tokens=TOKENS) as (http, one, other, _), asyncio.timeout(2 * PATIENCE):
        http.headers.update(as_("ann"))
        headers = await handshake(http, one, elicitation={})
        question = await question_of(http, one, headers)
        stranger = await handshake(http, one, elicitation={})
        http.headers.update(as_("bob"))
        bob = await handshake(http, other, elicitation={})
        shown = read_event_id(question["event"])
        assert shown is not None
        first = shown._replace(number=0).text()
        for token, whose in (("ann", stranger), ("bob", bob)):
            http.headers.update(as_(token))
            for url in (one, other):
                async with stream(http, url, after(first, whose)) as messages:
                    (lost,) = [item async for item in messages]
                    assert lost["error"]["message"] == LOST
        for url in (one, other):
            got = await http.get(url, headers={**after(first, headers), "accept": "text/event-stream"})
            assert got.status_code == 404
        http.headers.update(as_("ann"))
        async with stream(http, other, after(first, headers)) as messages:
            assert (await anext(messages))["event"] == question["event"]
            await http.post(one, json=answer(question), headers=headers)
            assert "ann@" in json.dumps(await anext(messages))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "a.b",
        "a.1.-1",
        "a.1.x",
        "a.1.1.!!",
        "a.1.1.e30",
        "a.1.1.dHJ1ZQ",
        "a.1.²",
        "." * 600,
        "a.1.1.MQ.x",
    ],
)
def test_ids_of_others_are_none_of_ours(text: str) -> None:
    assert read_event_id(text) is None


@pytest.mark.parametrize("request_id", [None, 0, -3, "a.b-c_d", "ü" * 50])
def test_an_id_of_an_event_says_what_it_was_made_of(request_id: str | int | None) -> None:
    place = EventId("ab12", "7", 42, request_id)
    assert read_event_id(place.text()) == place


def test_an_id_of_an_event_stays_short() -> None:
    assert read_event_id(EventId("ab12", "7", 42, "x" * 10_000).text()) == EventId("ab12", "7", 42)


# --- messages outside of requests


@contextlib.asynccontextmanager
async def told(tmp_path: Path) -> AsyncGenerator[tuple[httpx2.AsyncClient, str, Any]]:
    async with (
        spindle.open(tmp_path, tools=[shout]) as app,
        served(app) as url,
        httpx2.AsyncClient(timeout=PATIENCE) as http,
        asyncio.timeout(PATIENCE),
    ):
        yield http, url, lambda: app.catalog.tell(SyncReport(""))


LISTS = {f"notifications/{what}/list_changed" for what in ("tools", "prompts", "resources")}


async def all_of(messages: Any) -> None:
    """Waits for a notice of each list; other parts of the program may tell of one too."""
    wanted = set(LISTS)
    while wanted:
        wanted.discard((await anext(messages))["method"])


async def three(messages: Any) -> list[Any]:
    return [await anext(messages) for _ in range(3)]


async def test_notices_that_a_lost_connection_swallowed_are_sent_again(tmp_path: Path) -> None:
    async with told(tmp_path) as (http, url, change):
        headers = await handshake(http, url)
        async with stream(http, url, headers) as messages:
            change()
            first = await three(messages)
        async with stream(http, url, after(first[0]["event"], headers)) as messages:
            again = [await anext(messages), await anext(messages)]
            assert again == first[1:]
            change()
            await all_of(messages)


async def test_a_client_that_comes_back_takes_its_own_stream_over(tmp_path: Path) -> None:
    async with told(tmp_path) as (http, url, change):
        headers = await handshake(http, url)
        async with stream(http, url, headers) as messages:
            change()
            last = (await three(messages))[-1]
            refused = await http.get(url, headers={**headers, "accept": "text/event-stream"})
            assert refused.status_code == 409
            async with stream(http, url, after(last["event"], headers)) as newer:
                assert [item async for item in messages if "method" not in item] == [], "it ends"
                change()
                await all_of(newer)


async def test_a_client_that_comes_back_to_another_process_hears_that_all_may_have_changed(
    tmp_path: Path,
) -> None:
    uri = "test://watched-resource"
    async with two(tmp_path) as (http, one, other, _), asyncio.timeout(PATIENCE):
        headers = await handshake(http, one)
        subscribed = await http.post(one, json=rpc("resources/subscribe", uri=uri), headers=headers)
        assert "result" in subscribed.json()
        async with http.stream("GET", one, headers={**headers, "accept": "text/event-stream"}) as answered:
            begin = await anext(line async for line in answered.aiter_lines() if line.startswith("id:"))
        async with stream(http, other, after(begin[3:].strip(), headers)) as messages:
            found = [await anext(messages) for _ in range(4)]
        assert {item["method"] for item in found} == {*LISTS, "notifications/resources/updated"}


# --- what it costs others: nothing


async def test_a_plain_answer_is_not_kept(tmp_path: Path) -> None:
    async with told(tmp_path) as (http, url, _):
        headers = await handshake(http, url)
        call = rpc("tools/call", name="shout", arguments={"text": "hi"})
        answered = await http.post(url, json=call, headers=headers)
        assert answered.headers["content-type"] == "application/json"
        assert b"id: " not in answered.content


@tool
def steps(context: Context) -> str:
    """Tells of what it does."""
    for word in ("one", "two", "three"):
        context.log(word)
    return "done"


@pytest.mark.parametrize("version", ["2025-03-26", "2025-11-25"])
async def test_every_event_has_an_id_of_its_own(tmp_path: Path, version: str) -> None:
    async with (
        spindle.open(tmp_path, tools=[steps]) as app,
        served(app) as url,
        httpx2.AsyncClient(timeout=PATIENCE) as http,
        asyncio.timeout(PATIENCE),
    ):
        opened = await http.post(url, json=initialize(version), headers=JSON)
        headers = {
            **JSON, "mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": version,
        }  # fmt: skip
        call = rpc("tools/call", 5, name="steps")
        async with http.stream("POST", url, json=call, headers=headers) as answered:
            found = [item async for item in events(answered)]
        assert [item.get("method", item.get("id")) for item in found] == [*["notifications/message"] * 3, 5]
        assert len({item["event"] for item in found}) == 4
        last = found[1]["event"]
        async with stream(http, url, after(last, headers)) as messages:
            assert [item async for item in messages] == found[2:]
        accept = {**after(last, headers), "accept": "text/event-stream"}
        begin = (await http.get(url, headers=accept)).text.split("\n\n")[0]
        # For clients that know only the events of the newest of their connections, when that is lost too.
        assert (begin == f"id: {last}\ndata: ") == (version == "2025-11-25")
