"""Sessions over HTTP: shared, reopened when the server forgot or went away, one for each identity."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
from typing import Any, Literal

import pytest

from servers.http_server import HttpServer, Reply
from servers.running import PATIENCE, OpenSources, Signal, next_change, until
from spindle import CallOptions, Principal
from spindle.domain.identity import Credential
from spindle.errors import ClientError, ConnectionFailedError, ResultTooLargeError
from spindle.http.credentials import bearer

Era = Literal["handshake", "modern", "sse"]
Answers = Literal["json", "sse"]
QUICK = {"retry": {"wait": 0.001, "max_wait": 0.01}}
STREAMABLE = pytest.mark.parametrize(
    ("era", "answers"),
    [("handshake", "json"), ("handshake", "sse"), ("modern", "json"), ("modern", "sse")],
)
EVERY_WAY = pytest.mark.parametrize(
    ("era", "answers"),
    [("handshake", "json"), ("handshake", "sse"), ("modern", "json"), ("modern", "sse"), ("sse", "sse")],
)


def at(server: HttpServer, **settings: Any) -> dict[str, Any]:
    return {"url": server.url, **QUICK, **settings}


@EVERY_WAY
async def test_the_transport_and_the_era_are_found_out(
    open_sources: OpenSources, era: Era, answers: Answers
) -> None:
    async with HttpServer(era, answers) as server, open_sources({"s": at(server)}) as app:
        (report,) = await app.sync()
        assert report.error is None
        assert (await app.call("s.echo", text="hello")).text == "hello"


@EVERY_WAY
async def test_parallel_calls_share_one_session(
    open_sources: OpenSources, era: Era, answers: Answers
) -> None:
    async with (
        HttpServer(era, answers) as server,
        open_sources({"s": at(server, max_concurrency=50)}) as app,
    ):
        results = await asyncio.gather(*(app.call("s.echo", text=str(number)) for number in range(50)))
        assert [result.text for result in results] == [str(number) for number in range(50)]
        opened = [method for method in server.methods() if method in ("initialize", "server/discover")]
    assert len(opened) <= 3  # asked in the newest way, then in older ones


@EVERY_WAY
async def test_five_megabytes_of_text_arrive_whole(
    open_sources: OpenSources, era: Era, answers: Answers
) -> None:
    async with HttpServer(era, answers) as server, open_sources({"s": at(server)}) as app:
        assert (await app.call("s.big", size=5_000_000)).text == "x" * 5_000_000


@EVERY_WAY
async def test_a_result_over_the_limit_fails_and_the_next_call_works(
    open_sources: OpenSources, era: Era, answers: Answers
) -> None:
    async with (
        HttpServer(era, answers) as server,
        open_sources({"s": at(server, max_result_size="1MB")}) as app,
    ):
        with pytest.raises(ResultTooLargeError, match="larger than 1000000 bytes"):
            await app.call("s.big", size=50_000_000)
        assert (await app.call("s.echo", text="next")).text == "next"
        assert server.calls("big") == 1


@STREAMABLE
async def test_a_result_over_the_limit_fails_alone(
    open_sources: OpenSources, era: Era, answers: Answers
) -> None:
    async with (
        HttpServer(era, answers) as server,
        open_sources({"s": at(server, max_result_size="100kB")}) as app,
    ):
        waiting = asyncio.create_task(app.call("s.wait", {}, CallOptions(timeout=PATIENCE)))
        with pytest.raises(ResultTooLargeError):
            await app.call("s.big", size=1_000_000)
        assert not waiting.done()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_progress_over_http_is_passed_on(open_sources: OpenSources, era: Era) -> None:
    async with HttpServer(era, "sse") as server, open_sources({"s": at(server)}) as app:
        progress = Signal()
        await app.call("s.progress", {}, CallOptions(on_progress=progress))
        await progress.wait()
    assert progress.seen == [(1, 2, "half")]


@pytest.mark.parametrize("answers", ["json", "sse"])
async def test_cancelling_a_call_of_the_modern_era_aborts_its_request(
    open_sources: OpenSources, answers: Answers
) -> None:
    async with HttpServer("modern", answers) as server, open_sources({"s": at(server)}) as app:
        await app.sync()
        task = asyncio.create_task(app.call("s.wait"))
        async with asyncio.timeout(PATIENCE):
            while server.calls("wait") == 0:
                await app.call("s.read")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.aborted.wait()
        assert "notifications/cancelled" not in server.methods()


@pytest.mark.parametrize("era", ["handshake", "sse"])
async def test_cancelling_a_call_of_the_handshake_era_tells_the_server(
    open_sources: OpenSources, era: Era
) -> None:
    async with HttpServer(era) as server, open_sources({"s": at(server)}) as app:
        await app.sync()
        task = asyncio.create_task(app.call("s.wait"))
        async with asyncio.timeout(PATIENCE):
            while server.calls("wait") == 0:
                await app.call("s.read")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            while "notifications/cancelled" not in server.methods():
                await app.call("s.read")
        cancel = next(seen for seen in server.seen if seen.method == "notifications/cancelled")
        call = next(seen for seen in server.seen if seen.tool == "wait")
    assert cancel.message["params"]["requestId"] == call.message["id"]


@STREAMABLE
async def test_a_timeout_of_one_call_leaves_the_session_in_use(
    open_sources: OpenSources, era: Era, answers: Answers
) -> None:
    async with HttpServer(era, answers) as server, open_sources({"s": at(server)}) as app:
        await app.sync()
        with pytest.raises(Exception, match="did not answer within"):
            await app.call("s.wait", {}, CallOptions(timeout=0.05))
        assert (await app.call("s.echo", text="next")).text == "next"
        assert server.calls("wait") == 1
        assert server.methods().count("initialize") == (1 if era == "handshake" else 0)


@EVERY_WAY
@pytest.mark.parametrize("fault", ["reset", "break"])
async def test_a_connection_that_breaks_fails_a_call_unless_repeating_is_safe(
    open_sources: OpenSources, era: Era, answers: Answers, fault: Literal["reset", "break"]
) -> None:
    async with HttpServer(era, answers) as server, open_sources({"s": at(server)}) as app:
        await app.sync()
        server.next("echo", fault)
        with pytest.raises(ConnectionFailedError) as caught:
            await app.call("s.echo", text="once")
        assert caught.value.sent
        assert server.calls("echo") == 1
        server.next("read", fault)
        assert (await app.call("s.read", text="again")).text == "again"
        assert server.calls("read") == 2


@STREAMABLE
async def test_one_broken_answer_leaves_other_calls_alone(
    open_sources: OpenSources, era: Era, answers: Answers
) -> None:
    async with HttpServer(era, answers) as server, open_sources({"s": at(server)}) as app:
        await app.sync()
        waiting = asyncio.create_task(app.call("s.wait", {}, CallOptions(timeout=PATIENCE)))
        server.next("echo", "break")
        with pytest.raises(ConnectionFailedError):
            await app.call("s.echo")
        assert (await app.call("s.read", text="next")).text == "next"
        assert not waiting.done()
        waiting.cancel()
        await asyncio.wait([waiting])


@EVERY_WAY
async def test_a_server_that_was_killed_and_restarted_is_used_again(
    open_sources: OpenSources, era: Era, answers: Answers
) -> None:
    async with HttpServer(era, answers) as server, open_sources({"s": at(server)}) as app:
        assert (await app.call("s.echo", text="before")).text == "before"
        await server.stop()
        with pytest.raises(ConnectionFailedError):
            await app.call("s.echo", text="while it is down")
        await server.start()
        assert (await app.call("s.echo", text="after")).text == "after"
        sent = [seen.message["params"]["arguments"]["text"] for seen in server.seen if seen.tool == "echo"]
    assert sent == ["before", "after"]


@EVERY_WAY
async def test_a_call_in_flight_when_the_server_is_killed_fails_at_once(
    open_sources: OpenSources, era: Era, answers: Answers
) -> None:
    async with HttpServer(era, answers) as server, open_sources({"s": at(server)}) as app:
        await app.sync()
        task = asyncio.create_task(app.call("s.wait", {}, CallOptions(timeout=PATIENCE)))
        async with asyncio.timeout(PATIENCE):
            while server.calls("wait") == 0:
                await app.call("s.read")
        await server.stop()
        with pytest.raises(ConnectionFailedError):
            await task
        await server.start()
        assert (await app.call("s.echo", text="after")).text == "after"
        assert server.calls("wait") == 1


@pytest.mark.parametrize("answers", ["json", "sse"])
@pytest.mark.parametrize("status", [404, 400])
async def test_a_forgotten_session_is_opened_again_without_the_caller_noticing(
    open_sources: OpenSources, answers: Answers, status: int
) -> None:
    async with HttpServer("handshake", answers) as server, open_sources({"s": at(server)}) as app:
        await app.call("s.echo", text="first")
        server.forget_sessions(status)
        results = await asyncio.gather(*(app.call("s.echo", text=str(number)) for number in range(10)))
        assert [result.text for result in results] == [str(number) for number in range(10)]
        assert server.methods().count("initialize") == 2


async def test_closing_also_ends_a_session_that_was_given_up_but_is_still_in_use(
    open_sources: OpenSources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spindle.catalog.connection.CLOSE_TIMEOUT", 1000)
    async with HttpServer("handshake") as server, asyncio.timeout(PATIENCE):
        async with open_sources({"s": at(server)}) as app:
            await app.sync()
            waiting = asyncio.create_task(app.call("s.wait", {}, CallOptions(timeout=1000)))
            await until(lambda: server.calls("wait") == 1)
            server.forget_sessions()
            assert (await app.call("s.echo", text="next")).text == "next"
            assert server.methods().count("initialize") == 2
            assert not waiting.done()
        with pytest.raises(ConnectionFailedError):
            await waiting


async def test_a_server_that_forgets_every_session_is_given_up(open_sources: OpenSources) -> None:
    async with HttpServer("handshake") as server, open_sources({"s": at(server)}) as app:
        await app.sync()
        server.always("echo", Reply(404))
        with pytest.raises(ConnectionFailedError, match="no longer knows the session"):
            await app.call("s.echo")
        assert server.calls("echo") == 3


async def test_a_closed_session_is_ended_at_the_server(open_sources: OpenSources) -> None:
    async with HttpServer("handshake") as server:
        async with open_sources({"s": at(server)}) as app:
            await app.call("s.echo")
        assert server.methods()[-1] == "DELETE"


async def test_a_changed_list_is_noticed_in_the_handshake_era(open_sources: OpenSources) -> None:
    async with (
        HttpServer("handshake", get_stream=True) as server,
        open_sources({"s": at(server)}) as app,
    ):
        await app.sync()
        change = next_change(app)
        async with asyncio.timeout(PATIENCE):
            await server.listening.wait()
        await server.change_tools("newcomer")
        assert (await change()).added == ["s.newcomer"]
        assert (await app.call("s.newcomer")).text == "newcomer"


async def test_a_changed_list_is_noticed_over_the_older_transport(open_sources: OpenSources) -> None:
    async with HttpServer("sse") as server, open_sources({"s": at(server)}) as app:
        await app.sync()
        change = next_change(app)
        await server.change_tools("newcomer")
        assert (await change()).added == ["s.newcomer"]


async def test_a_changed_list_is_noticed_in_the_modern_era(open_sources: OpenSources) -> None:
    async with HttpServer("modern") as server, open_sources({"s": at(server)}) as app:
        await app.sync()
        change = next_change(app)
        async with asyncio.timeout(PATIENCE):
            await server.listening.wait()
        await server.change_tools("newcomer")
        assert (await change()).added == ["s.newcomer"]


async def test_listening_begins_again_when_the_server_dropped_it(
    open_sources: OpenSources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spindle.sources.mcp.changes.FIRST_WAIT", 0.01)
    notes: list[str] = []
    async with HttpServer("modern") as server, open_sources({"s": at(server)}, note=notes.append) as app:
        await app.sync()
        change = next_change(app)
        async with asyncio.timeout(PATIENCE):
            await server.listening.wait()
            server.tools.append({"name": "missed", "inputSchema": {"type": "object"}})
            server.next("subscriptions/listen", Reply(503), "reset")
            server.end_listening()
            # What changed meanwhile is found although nobody told of it.
            assert (await change()).added == ["s.missed"]
        await server.change_tools("newcomer")
        assert (await change()).added == ["s.newcomer"]
    assert notes == []


@pytest.mark.parametrize("refusal", [Reply(401), Reply(404), Reply(200, body=b"what?")])
async def test_a_server_that_refuses_to_be_listened_to_still_serves_calls(
    open_sources: OpenSources, refusal: Reply, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spindle.sources.mcp.changes.FIRST_WAIT", 0.001)
    async with HttpServer("modern") as server, open_sources({"s": at(server)}) as app:
        server.always("subscriptions/listen", refusal)
        await app.sync()
        async with asyncio.timeout(PATIENCE):
            while "subscriptions/listen" not in server.methods():
                await app.call("s.read")
        for _ in range(20):
            assert (await app.call("s.echo", text="fine")).text == "fine"
        assert server.methods().count("subscriptions/listen") == 1


@EVERY_WAY
async def test_each_principal_is_seen_with_its_own_token_and_no_other(
    open_sources: OpenSources, era: Era, answers: Answers
) -> None:
    async def own_token(source: str, principal: Principal) -> Credential:
        return bearer(f"token-of-{principal.id}")

    async with (
        HttpServer(era, answers) as server,
        open_sources({"s": at(server, max_concurrency=50)}, credentials=own_token) as app,
    ):
        people = ["ann", "ben"] * 25
        results = await asyncio.gather(
            *(app.call("s.whoami", {"by": who}, CallOptions(principal=Principal(who))) for who in people)
        )
        shown = [json.loads(result.text) for result in results]
        everything = {seen.headers.get("authorization") for seen in server.seen}
    assert [item["authorization"] for item in shown] == [f"Bearer token-of-{who}" for who in people]
    assert [item["asked_by"] for item in shown] == people
    assert everything == {f"Bearer token-of-{who}" for who in ("ann", "ben")}


@pytest.mark.parametrize("answers", ["json", "sse"])
async def test_one_session_of_the_modern_era_serves_all_users_in_parallel(
    open_sources: OpenSources, answers: Answers
) -> None:
    async def own_token(source: str, principal: Principal) -> Credential:
        return bearer(f"token-of-{principal.id}")

    people = ["ann", "ben", "cid", "dot", "eve"]
    async with (
        HttpServer("modern", answers) as server,
        open_sources({"s": at(server)}, credentials=own_token) as app,
    ):
        server.gives_cookies = True
        await app.call("s.echo", {"text": "first"}, CallOptions(principal=Principal("ann")))
        opened = server.methods().count("server/discover")
        # None is answered before all have arrived: one that waited for another would wait for ever.
        server.meeting = asyncio.Barrier(len(people))
        results = await asyncio.gather(
            *(app.call("s.whoami", {"by": who}, CallOptions(principal=Principal(who))) for who in people)
        )
        assert server.methods().count("server/discover") == opened
    shown = [json.loads(result.text) for result in results]
    assert [item["authorization"] for item in shown] == [f"Bearer token-of-{who}" for who in people]
    assert [item["cookie"] for item in shown] == [None] * len(people)


@pytest.mark.parametrize("era", ["handshake", "sse"])
async def test_a_session_of_an_older_era_is_never_shared_by_two_users(
    open_sources: OpenSources, era: Era
) -> None:
    async def own_token(source: str, principal: Principal) -> Credential:
        return bearer(f"token-of-{principal.id}")

    async with (
        HttpServer(era, "json") as server,
        open_sources({"s": at(server)}, credentials=own_token) as app,
    ):
        for who in ("ann", "ben", "ann", "ben"):
            await app.call("s.echo", {"text": who}, CallOptions(principal=Principal(who)))
        users: dict[str | None, set[str | None]] = {}
        for seen in server.seen:
            session = seen.headers.get("mcp-session-id") or str(seen.query.get("session"))
            if seen.method == "tools/call":
                users.setdefault(session, set()).add(seen.headers.get("authorization"))
    assert all(len(tokens) == 1 for tokens in users.values())
    assert len(users) == 2


@pytest.mark.parametrize(
    ("auth", "part", "value"),
    [
        ({"type": "bearer", "token": "t0ken"}, "authorization", "Bearer t0ken"),
        ({"type": "basic", "username": "u", "password": "p"}, "authorization", "Basic dTpw"),
        ({"type": "api_key", "name": "X-Key", "value": "k3y"}, "x-key", "k3y"),
        ({"type": "api_key", "name": "k", "value": "k3y", "in": "query"}, "query", {"k": ["k3y"]}),
        ({"type": "api_key", "name": "k", "value": "k3y", "in": "cookie"}, "cookie", "k=k3y"),
    ],
)
@pytest.mark.parametrize("era", ["handshake", "modern", "sse"])
async def test_each_kind_of_credential_is_shown_with_every_request(
    open_sources: OpenSources, era: Era, auth: dict[str, Any], part: str, value: Any
) -> None:
    async with HttpServer(era) as server:
        async with open_sources({"s": at(server, auth=auth)}) as app:
            shown = json.loads((await app.call("s.whoami")).text)
        for seen in server.seen:
            found = seen.query if part == "query" else seen.headers.get(part)
            if part == "query":
                found = {"k": found.get("k")}
            assert found == value, seen
    if part == "query":
        assert shown["query"]["k"] == ["k3y"]
    else:
        assert shown[part] == value


async def test_headers_from_the_settings_are_sent(open_sources: OpenSources) -> None:
    async with HttpServer("modern") as server:
        async with open_sources({"s": at(server, headers={"X-Key": "from settings"})}) as app:
            await app.call("s.echo")
        assert {seen.headers.get("x-key") for seen in server.seen} == {"from settings"}


@pytest.mark.parametrize("era", ["handshake", "modern", "sse"])
@pytest.mark.parametrize("token", ["s3cret\n", "s3\r\nX-Evil: cret", "s3\0cret"])
async def test_a_credential_that_cannot_be_sent_is_refused_without_being_shown(
    open_sources: OpenSources, era: Era, token: str
) -> None:
    auth = {"type": "bearer", "token": token}
    async with HttpServer(era) as server, open_sources({"s": at(server, auth=auth)}) as app:
        (report,) = await app.sync()
        assert report.error is not None
        assert report.error["category"] == "configuration"
        assert "Authorization" in report.error["message"]
        assert "cret" not in json.dumps(report.error)
        assert server.seen == []


@pytest.mark.parametrize("era", ["handshake", "modern", "sse"])
async def test_a_key_in_the_url_reaches_no_log(
    open_sources: OpenSources, era: Era, caplog: pytest.LogCaptureFixture
) -> None:
    auth = {"type": "api_key", "name": "key", "value": "s3cret-k3y", "in": "query"}
    with caplog.at_level(logging.DEBUG):
        async with HttpServer(era) as server, open_sources({"s": at(server, auth=auth)}) as app:
            await app.call("s.echo")
    assert "POST http://" in caplog.text
    assert "s3cret-k3y" not in caplog.text


@STREAMABLE
async def test_a_small_answer_that_unpacks_to_a_huge_one_is_refused(
    open_sources: OpenSources, era: Era, answers: Answers
) -> None:
    bomb = gzip.compress(b" " * 10_000_000)
    async with HttpServer(era, answers) as server, open_sources({"s": at(server)}) as app:
        await app.sync()
        server.next("echo", Reply(200, {"Content-Encoding": "gzip"}, bomb, "application/json"))
        with pytest.raises(ConnectionFailedError, match="compressed"):
            await app.call("s.echo")
        assert (await app.call("s.read", text="next")).text == "next"
        assert {seen.headers["accept-encoding"] for seen in server.seen} == {"identity"}


async def test_an_older_server_is_asked_in_the_newest_way_only_once(open_sources: OpenSources) -> None:
    async with HttpServer("handshake") as server, open_sources({"s": at(server)}) as app:
        for _ in range(3):
            await app.call("s.echo")
            await app.catalog.connections.close_source("s")
        assert server.methods().count("server/discover") == 1
        assert server.methods().count("initialize") == 3


async def test_arguments_that_a_server_wants_as_headers_are_sent_as_such(open_sources: OpenSources) -> None:
    region = {"type": "string", "x-mcp-header": "Region"}
    schema = {"type": "object", "properties": {"region": region, "text": {"type": "string"}}}
    mismatch = {"jsonrpc": "2.0", "id": None, "error": {"code": -32020, "message": "header missing"}}
    async with HttpServer("modern") as server, open_sources({"s": at(server)}) as app:
        server.tools.append({"name": "regional", "inputSchema": schema})
        await app.sync()
        await app.catalog.connections.close_source("s")
        # A new session knows the tool only from the catalog; the server's complaint makes it look again.
        server.next("regional", Reply(400, {}, json.dumps(mismatch).encode(), "application/json"))
        assert (await app.call("s.regional", region="north", text="done")).text == "done"
        seen = server.seen[-1]
    assert seen.headers["mcp-name"] == "regional"
    assert seen.headers["mcp-method"] == "tools/call"
    assert seen.headers["mcp-param-region"] == "north"


async def test_a_tool_that_asks_for_what_no_person_can_give_is_refused(open_sources: OpenSources) -> None:
    model = {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 5}}
    asks = {"resultType": "input_required", "inputRequests": {"x": model}, "requestState": "opaque"}
    async with HttpServer("modern") as server, open_sources({"s": at(server)}) as app:
        await app.sync()
        server.answer_with("echo", asks)
        with pytest.raises(ClientError, match="asks for a language model, and may not use one"):
            await app.call("s.echo")
        assert server.calls("echo") == 1


async def test_a_server_without_tools_has_an_empty_list(open_sources: OpenSources) -> None:
    async with HttpServer("handshake") as server, open_sources({"s": at(server)}) as app:
        server.capabilities = {"prompts": {}}
        (report,) = await app.sync()
        assert (report.error, report.tools) == (None, 0)
        assert "tools/list" not in server.methods()


async def test_a_list_that_never_ends_is_given_up(
    open_sources: OpenSources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spindle.ports.list_budget.MAX_PAGES", 5)
    async with HttpServer("modern") as server, open_sources({"s": at(server)}) as app:
        server.endless = True
        (report,) = await app.sync()
    assert report.error is not None
    assert "more than 5 pages" in report.error["message"]


async def test_an_answer_that_does_not_fit_the_protocol_opens_no_session(open_sources: OpenSources) -> None:
    async with HttpServer("handshake") as server, open_sources({"s": at(server)}) as app:
        server.answer_with("initialize", {"protocolVersion": 7})
        (report,) = await app.sync()
    assert report.error is not None
    assert report.error["category"] == "server"
    assert "does not speak a known version of MCP" in report.error["message"]
