"""Sessions of the handshake era in any process of a workspace: begun in one, gone on with in another."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest

import spindle
from mcp_server.conftest import fixture_source
from mcp_server.test_http_serving import JSON, META, handshake, initialize, modern, rpc, shout
from servers.running import PATIENCE
from servers.serving import served
from spindle import Context, tool
from spindle.catalog.diff import SyncReport
from spindle.domain.serve import ServeConfig
from spindle.mcp_server.session_ids import LIFE, MAX_ID
from spindle.serving.access import ServingAccess
from spindle.settings import Settings

EACH_STORE = pytest.mark.parametrize("store", ["sqlite", "postgres"])


@tool
def noisy(context: Context) -> str:
    """Logs a line."""
    context.log("working")
    return "done"


class Two(NamedTuple):
    """Two processes of one workspace, as far as anything but a crash can tell."""

    http: httpx2.AsyncClient
    one: str
    other: str
    access: ServingAccess


def settings_of(root: Path, store: str | None = None) -> Settings:
    raw: dict[str, Any] = {"sources": {"fixture": fixture_source(protocol="handshake")}}
    return Settings(root, raw | ({"store": store} if store else {}))


@contextlib.asynccontextmanager
async def one_of(
    root: Path, store: str | None = None, **serve: Any
) -> AsyncGenerator[tuple[str, ServingAccess]]:
    access = ServingAccess.of(ServeConfig.model_validate({"port": 0, **serve}), {})
    async with spindle.open(settings=settings_of(root, store), tools=[shout, noisy]) as app:
        await app.sync()
        async with served(app, access=access) as url:
            yield url, access


@contextlib.asynccontextmanager
async def two(root: Path, store: str | None = None, **serve: Any) -> AsyncGenerator[Two]:
    async with (
        one_of(root, store, **serve) as (one, _),
        one_of(root, store, **serve) as (other, access),
        httpx2.AsyncClient(timeout=PATIENCE) as http,
    ):
        yield Two(http, one, other, access)


@pytest.fixture
def place(store: str, request: pytest.FixtureRequest) -> str | None:
    return request.getfixturevalue("postgres_url") if store == "postgres" else None


async def events(answer: httpx2.Response) -> AsyncIterator[Any]:
    """The messages of a stream, each with the id of its event."""
    name = ""
    async for line in answer.aiter_lines():
        if line.startswith("id:"):
            name = line.removeprefix("id:").strip()
        elif line.startswith("data:") and line.removeprefix("data:").strip():
            yield {**json.loads(line.removeprefix("data:")), "event": name}


@contextlib.asynccontextmanager
async def stream(
    http: httpx2.AsyncClient, url: str, headers: dict[str, str], message: Any = None
) -> AsyncGenerator[AsyncIterator[Any]]:
    """The events that answer a request, or come on a stream of notices."""
    accept = {**headers, "accept": "text/event-stream" if message is None else JSON["accept"]}
    body = {} if message is None else {"json": message}
    async with http.stream("GET" if message is None else "POST", url, headers=accept, **body) as answer:
        assert answer.status_code == 200
        yield events(answer)


async def status(http: httpx2.AsyncClient, url: str, headers: dict[str, str]) -> int:
    return (await http.post(url, json=rpc("ping"), headers=headers)).status_code


@EACH_STORE
async def test_a_session_goes_on_in_a_process_that_has_never_seen_it(
    tmp_path: Path, place: str | None
) -> None:
    async with two(tmp_path, place) as (http, one, other, _):
        headers = await handshake(http, one)
        assert await status(http, other, headers) == 200
        called = await http.post(
            other, json=rpc("tools/call", name="shout", arguments={"text": "hi"}), headers=headers
        )
        assert called.json()["result"]["content"] == [{"type": "text", "text": "HI"}]


async def test_a_session_outlives_the_process_that_began_it(tmp_path: Path) -> None:
    async with httpx2.AsyncClient(timeout=PATIENCE) as http:
        async with one_of(tmp_path) as (url, _):
            headers = await handshake(http, url)
        async with one_of(tmp_path) as (url, _):
            assert await status(http, url, headers) == 200


async def test_a_client_that_says_much_of_itself_has_a_short_id_all_the_same(tmp_path: Path) -> None:
    message = initialize(experimental={f"x{number}": {"n": f"{number * 7919:x}"} for number in range(2000)})
    async with two(tmp_path) as (http, one, other, _):
        opened = await http.post(one, json=message, headers=JSON)
        shown = opened.headers["mcp-session-id"]
        assert len(shown) <= MAX_ID
        assert await status(http, other, {**JSON, "mcp-session-id": shown}) == 200


TOKENS = {name: {"token": f"the token of {name}", "groups": ["all"]} for name in ("ann", "bob")}


def as_(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer the token of {name}"}


async def test_an_id_is_good_for_its_principal_and_its_workspace_alone(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    async with (
        two(tmp_path / "a", tokens=TOKENS) as (http, one, other, _),
        one_of(tmp_path / "b", tokens=TOKENS) as (foreign, _),
    ):
        http.headers.update(as_("ann"))
        headers = await handshake(http, one)
        shown = headers["mcp-session-id"]
        assert await status(http, foreign, headers) == 404
        changed = [
            shown[:-2],
            f"{shown}A",
            f"B{shown[1:]}",
            shown[:40] + ("A" if shown[40] != "A" else "B") + shown[41:],
        ]
        for forged in [*changed, "guessed", "~" * 100, "A" * 5000]:
            assert await status(http, other, {**headers, "mcp-session-id": forged}) == 404
        http.headers.update(as_("bob"))
        assert await status(http, one, headers) == 404
        assert await status(http, other, headers) == 404
        assert (await http.delete(other, headers=headers)).status_code == 404
        http.headers.update(as_("ann"))
        assert await status(http, other, headers) == 200


async def test_an_id_is_not_good_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with two(tmp_path) as (http, one, other, _):
        headers = await handshake(http, one)
        monkeypatch.setattr("spindle.mcp_server.session_ids.LIFE", -1.0)
        assert await status(http, other, headers) == 404
        assert await status(http, one, headers) == 200, "who knows the session goes on with it"
        monkeypatch.setattr("spindle.mcp_server.session_ids.LIFE", LIFE)
        assert await status(http, other, headers) == 200


@EACH_STORE
async def test_a_session_that_its_client_ended_has_ended_everywhere(
    tmp_path: Path, place: str | None
) -> None:
    async with two(tmp_path, place) as (http, one, other, _):
        unseen, seen = await handshake(http, one), await handshake(http, one)
        assert await status(http, other, seen) == 200
        for headers in (unseen, seen):
            assert (await http.delete(one, headers=headers)).status_code == 200
            assert await status(http, one, headers) == 404
        assert await status(http, other, unseen) == 404

        async def has_ended() -> bool:
            return await status(http, other, seen) == 404

        async with asyncio.timeout(PATIENCE):
            while not await has_ended():
                await asyncio.sleep(0.05)


@EACH_STORE
async def test_a_question_that_one_process_asks_is_answered_to_another(
    tmp_path: Path, place: str | None
) -> None:
    call = rpc("tools/call", 5, name="test_elicitation", arguments={"message": "Who?"})
    async with two(tmp_path, place) as (http, one, other, _):
        headers = await handshake(http, one, elicitation={})
        async with asyncio.timeout(PATIENCE), stream(http, one, headers, call) as messages:
            question = await anext(messages)
            assert question["method"] == "elicitation/create"
            result = {"action": "accept", "content": {"username": "ann", "email": "ann@example.com"}}
            answer = {"jsonrpc": "2.0", "id": question["id"], "result": result}
            assert (await http.post(other, json=answer, headers=headers)).status_code == 202
            assert "ann@example.com" in json.dumps(await anext(messages))


async def test_nobody_answers_the_question_of_another_session(tmp_path: Path) -> None:
    call = rpc("tools/call", 5, name="test_elicitation", arguments={"message": "Who?"})
    async with two(tmp_path) as (http, one, other, _):
        headers = await handshake(http, one, elicitation={})
        stranger = await handshake(http, one, elicitation={})
        async with asyncio.timeout(PATIENCE), stream(http, one, headers, call) as messages:
            question = await anext(messages)

            async def answered(as_whom: dict[str, str], name: str) -> None:
                result = {"action": "accept", "content": {"username": name, "email": "x"}}
                answer = {"jsonrpc": "2.0", "id": question["id"], "result": result}
                assert (await http.post(other, json=answer, headers=as_whom)).status_code == 202

            await answered(stranger, "mallory")
            await answered(headers, "ann")
            assert "ann" in json.dumps(done := await anext(messages))
            assert "mallory" not in json.dumps(done)


@EACH_STORE
async def test_a_request_is_cancelled_through_another_process(tmp_path: Path, place: str | None) -> None:
    call = rpc("tools/call", 5, name="test_elicitation", arguments={"message": "Who?"})
    told = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}
    async with two(tmp_path, place) as (http, one, other, _):
        headers = await handshake(http, one, elicitation={})
        async with asyncio.timeout(PATIENCE), stream(http, one, headers, call) as messages:
            await anext(messages)
            assert (await http.post(other, json=told, headers=headers)).status_code == 202
            assert (await anext(messages))["error"]["message"] == "Request cancelled"


async def test_what_a_client_set_in_one_process_holds_in_another(tmp_path: Path) -> None:
    call, touch = rpc("tools/call", 5, name="noisy"), rpc("tools/call", 6, name="test_touch_resource")
    uri = "test://watched-resource"
    async with two(tmp_path) as (http, one, other, _), asyncio.timeout(PATIENCE):
        headers = await handshake(http, one)
        async with stream(http, other, headers) as notices:
            for message in (rpc("logging/setLevel", level="error"), rpc("resources/subscribe", uri=uri)):
                assert "result" in (await http.post(one, json=message, headers=headers)).json()
            while "working" in (await http.post(other, json=call, headers=headers)).text:
                await asyncio.sleep(0.05)

            async def touching() -> None:
                while True:  # the other process hears of the subscription in its own time
                    await http.post(other, json=touch, headers=headers)
                    await asyncio.sleep(0.1)

            touched = asyncio.create_task(touching())
            while (told := await anext(notices))["method"] != "notifications/resources/updated":
                pass
            assert told["params"] == {"uri": uri}
            touched.cancel()
        assert (
            "result"
            in (await http.post(other, json=rpc("resources/unsubscribe", uri=uri), headers=headers)).json()
        )
        again = await handshake(http, one)
        assert "working" in (await http.post(other, json=call, headers=again)).text


async def test_a_token_in_other_groups_keeps_its_sessions_and_sees_other_tools_at_once(
    tmp_path: Path,
) -> None:
    def of(group: str) -> ServeConfig:
        tokens = {"ann": {"token": "the token of ann", "groups": [group]}}
        groups = {"few": {"exposed_tools": ["shout"]}, "many": {"exposed_tools": ["shout", "noisy"]}}
        return ServeConfig.model_validate({"port": 0, "tokens": tokens, "groups": groups})

    async def listed() -> set[str]:
        answer = await http.post(url, json=rpc("tools/list"), headers=headers)
        return {item["name"] for item in answer.json()["result"]["tools"]}

    access = ServingAccess.of(of("few"), {})
    async with (
        spindle.open(tmp_path, tools=[shout, noisy]) as app,
        served(app, access=access) as url,
        httpx2.AsyncClient(timeout=PATIENCE, headers=as_("ann")) as http,
        asyncio.timeout(PATIENCE),
    ):
        headers = await handshake(http, url)
        async with stream(http, url, headers) as notices:
            assert await listed() == {"shout"}
            access.adopt(of("many"))
            app.catalog.tell(SyncReport(""))
            assert (await anext(notices))["method"] == "notifications/tools/list_changed"
            assert await listed() == {"shout", "noisy"}
            access.adopt(of("few"))
            app.catalog.tell(SyncReport(""))
            while (await anext(notices))["method"] != "notifications/tools/list_changed":
                pass
            assert await listed() == {"shout"}


# --- calls of clients of 2026-07-28 that wait for an answer


def asking(state: str | None = None, **responses: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """A call that asks, or the same with answers."""
    given = {"requestState": state, "inputResponses": responses} if state is not None else {}
    body, headers = modern("tools/call", "test_elicitation", arguments={"message": "Who?"}, **given)
    body["params"]["_meta"] = {**META, "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}
    return body, headers


async def posted(http: httpx2.AsyncClient, url: str, call: tuple[dict[str, Any], dict[str, str]]) -> Any:
    return (await http.post(url, json=call[0], headers=call[1])).json()


ANN = {"action": "accept", "content": {"username": "ann", "email": "ann@example.com"}}


@EACH_STORE
async def test_a_call_that_waits_in_one_process_goes_on_when_its_client_comes_back_to_another(
    tmp_path: Path, place: str | None
) -> None:
    async with two(tmp_path, place) as (http, one, other, _), asyncio.timeout(PATIENCE):
        asked = (await posted(http, one, asking()))["result"]
        (name,) = asked["inputRequests"]
        again = (await posted(http, other, asking(asked["requestState"])))["result"]
        assert again["inputRequests"].keys() == {name}, "what was not answered is asked again"
        done = await posted(http, other, asking(again["requestState"], **{name: ANN}))
        assert "ann@example.com" in json.dumps(done["result"])
        over = await posted(http, other, asking(again["requestState"], **{name: ANN}))
        assert "no longer waits" in over["error"]["message"]


async def test_a_call_that_waited_in_a_process_that_is_gone_is_made_again_with_its_answers(
    tmp_path: Path,
) -> None:
    async with httpx2.AsyncClient(timeout=PATIENCE) as http, asyncio.timeout(2 * PATIENCE):
        async with one_of(tmp_path) as (url, _):
            asked = (await posted(http, url, asking()))["result"]
        (name,) = asked["inputRequests"]
        async with one_of(tmp_path) as (url, _):
            done = await posted(http, url, asking(asked["requestState"], **{name: ANN}))
            assert "ann@example.com" in json.dumps(done["result"])


async def test_the_state_of_a_call_that_waits_is_good_for_its_principal_and_its_call_alone(
    tmp_path: Path,
) -> None:
    async with two(tmp_path, tokens=TOKENS) as (http, one, other, _), asyncio.timeout(PATIENCE):
        http.headers.update(as_("ann"))
        asked = (await posted(http, one, asking()))["result"]
        (name,) = asked["inputRequests"]
        state = asked["requestState"]
        body, headers = asking(state, **{name: ANN})
        body["params"]["arguments"] = {"message": "Another?"}
        http.headers.update(as_("bob"))
        for url in (one, other):
            assert (
                "no longer waits"
                in (await posted(http, url, asking(state, **{name: ANN})))["error"]["message"]
            )
        http.headers.update(as_("ann"))
        for url in (one, other):
            assert "no longer waits" in (await posted(http, url, (body, headers)))["error"]["message"]
            forged = asking(f"{state[:-4]}AAAA", **{name: ANN})
            assert "no longer waits" in (await posted(http, url, forged))["error"]["message"]
        assert "ann@" in json.dumps(await posted(http, other, asking(state, **{name: ANN})))
