"""What an HTTP status means, when a session opens and in the middle of it."""

from __future__ import annotations

import json
import time
from email.utils import formatdate
from typing import Any, Literal

import pytest

from servers.http_server import HttpServer, Reply
from servers.running import OpenSources
from spindle.calls.caller import Clock
from spindle.domain.identity import Credential
from spindle.errors import (
    AuthError,
    CallTimeoutError,
    ClientError,
    ConnectionFailedError,
    NotFoundError,
    PermissionDeniedError,
    RateLimitedError,
    ServerError,
    SpindleError,
)
from spindle.http.credentials import bearer

Era = Literal["handshake", "modern", "sse"]
HTML = Reply(502, {}, b"<html><body>Bad gateway</body></html>", "text/html")
PLAIN_JSON = Reply(400, {}, b'{"message": "not JSON-RPC"}', "application/json")
ERAS = pytest.mark.parametrize("era", ["handshake", "modern", "sse"])
ANSWERS = [("handshake", "json"), ("handshake", "sse"), ("modern", "json"), ("modern", "sse"), ("sse", "sse")]
STATUSES = pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (Reply(400), ClientError),
        (PLAIN_JSON, ClientError),
        (Reply(401), AuthError),
        (Reply(403), PermissionDeniedError),
        (Reply(408), CallTimeoutError),
        (Reply(429), RateLimitedError),
        (Reply(500), ServerError),
        (HTML, ServerError),
        (Reply(503), ServerError),
        (Reply(503, {"Retry-After": "7"}), RateLimitedError),
        (Reply(504), CallTimeoutError),
    ],
    ids=lambda value: f"{value.status}{value.headers or ''}" if isinstance(value, Reply) else None,
)


def at(server: HttpServer, **settings: Any) -> dict[str, Any]:
    return {"url": server.url, "retry": {"wait": 0.001, "max_wait": 0.01}, **settings}


@ERAS
@STATUSES
async def test_a_status_in_the_middle_of_a_session_is_a_typed_error(
    open_sources: OpenSources, era: Era, reply: Reply, kind: type[SpindleError]
) -> None:
    async with HttpServer(era) as server, open_sources({"s": at(server)}) as app:
        await app.sync()
        server.next("echo", reply)
        server.next("echo", reply)
        server.next("echo", reply)
        with pytest.raises(kind) as caught:
            await app.call("s.echo")
        assert type(caught.value) is kind
        assert caught.value.status == reply.status
        assert caught.value.retry_after == (7 if reply.headers else None)
        server._faults.clear()
        assert (await app.call("s.read", text="next")).text == "next"


@ERAS
@STATUSES
async def test_a_status_when_a_session_opens_is_a_typed_error(
    open_sources: OpenSources, era: Era, reply: Reply, kind: type[SpindleError]
) -> None:
    async with HttpServer(era) as server, open_sources({"s": at(server)}) as app:
        server.always("*", reply)
        (report,) = await app.sync()
        assert report.error is not None
        assert report.error["category"] == kind.category
        assert report.error["status"] == reply.status
        assert report.error.get("retry_after") == (7 if reply.headers else None)
        server.always("*", None)
        assert (await app.call("s.echo", text="well again")).text == "well again"


async def test_a_url_where_nothing_is_found_says_so(open_sources: OpenSources) -> None:
    async with HttpServer("modern") as server, open_sources({"s": at(server)}) as app:
        server.always("*", Reply(404))
        (report,) = await app.sync()
    assert report.error is not None
    assert (report.error["category"], report.error["status"]) == ("not_found", 404)


async def test_a_missing_page_in_the_middle_of_a_modern_session_says_so(open_sources: OpenSources) -> None:
    async with HttpServer("modern") as server, open_sources({"s": at(server)}) as app:
        await app.sync()
        server.next("echo", Reply(404))
        with pytest.raises(NotFoundError) as caught:
            await app.call("s.echo")
    assert caught.value.status == 404


async def test_a_page_that_is_no_mcp_server_is_a_clear_error(open_sources: OpenSources) -> None:
    async with HttpServer("modern") as server, open_sources({"s": at(server)}) as app:
        server.always("*", Reply(200, {}, b"<html>Welcome</html>", "text/html"))
        (report,) = await app.sync()
    assert report.error is not None
    assert "text/html" in report.error["message"]


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_a_json_rpc_error_in_the_body_counts_more_than_its_status(
    open_sources: OpenSources, era: Era
) -> None:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32602, "message": "no such colour"}}
    async with HttpServer(era) as server, open_sources({"s": at(server)}) as app:
        await app.sync()
        server.next("echo", Reply(400, {}, json.dumps(error).encode(), "application/json"))
        with pytest.raises(ClientError, match="no such colour") as caught:
            await app.call("s.echo")
    assert caught.value.status == 400
    assert caught.value.details == {"code": -32602}


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_an_answer_that_is_not_json_is_a_server_error(open_sources: OpenSources, era: Era) -> None:
    async with HttpServer(era) as server, open_sources({"s": at(server)}) as app:
        await app.sync()
        server.next("echo", Reply(200, {}, b"{broken", "application/json"))
        with pytest.raises(ServerError, match="cannot be read"):
            await app.call("s.echo")
        assert (await app.call("s.read", text="next")).text == "next"
        assert server.calls("echo") == 1


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_a_request_that_is_only_accepted_fails_at_once(open_sources: OpenSources, era: Era) -> None:
    async with HttpServer(era) as server, open_sources({"s": at(server)}) as app:
        await app.sync()
        server.next("echo", Reply(202))
        with pytest.raises(ClientError, match="202"):
            await app.call("s.echo")


@ERAS
@pytest.mark.parametrize("fault", [Reply(500), HTML, Reply(503), "reset"])
async def test_a_tool_with_effects_is_never_sent_twice(
    open_sources: OpenSources, era: Era, fault: Any
) -> None:
    async with HttpServer(era) as server, open_sources({"s": at(server)}) as app:
        await app.sync()
        server.always("echo", fault)
        with pytest.raises(SpindleError):
            await app.call("s.echo")
        assert server.calls("echo") == 1


@ERAS
async def test_a_tool_that_only_reads_is_sent_again(open_sources: OpenSources, era: Era) -> None:
    async with HttpServer(era) as server, open_sources({"s": at(server)}) as app:
        await app.sync()
        server.next("read", Reply(500), "reset")
        assert (await app.call("s.read", text="third time")).text == "third time"
        assert server.calls("read") == 3


@ERAS
async def test_a_tool_with_effects_that_was_refused_with_429_is_sent_again(
    open_sources: OpenSources, era: Era
) -> None:
    async with HttpServer(era) as server, open_sources({"s": at(server)}) as app:
        await app.sync()
        server.next("echo", Reply(429))
        assert (await app.call("s.echo", text="done")).text == "done"
        assert server.calls("echo") == 2
        assert (await app.history())[0].attempts == 2


@ERAS
@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("form", ["seconds", "date"])
async def test_a_server_that_says_when_to_come_back_is_asked_again_then(
    open_sources: OpenSources, era: Era, status: int, form: str
) -> None:
    waits: list[float] = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    value = "3" if form == "seconds" else formatdate(time.time() + 100, usegmt=True)
    source = {"retry": {"max_wait": 1000}, "timeout": 200}
    async with (
        HttpServer(era) as server,
        open_sources({"s": at(server) | source}, clock=Clock(sleep=wait)) as app,
    ):
        await app.sync()
        server.next("echo", Reply(status, {"Retry-After": value}))
        assert (await app.call("s.echo", text="done")).text == "done"
        assert server.calls("echo") == 2
    if form == "seconds":
        assert waits == [3.0]
    else:
        assert len(waits) == 1
        assert 0 < waits[0] <= 100


@ERAS
async def test_a_wait_longer_than_allowed_is_left_to_the_caller(open_sources: OpenSources, era: Era) -> None:
    async with HttpServer(era) as server, open_sources({"s": at(server)}) as app:
        await app.sync()
        server.next("echo", Reply(429, {"Retry-After": "3600"}))
        with pytest.raises(RateLimitedError) as caught:
            await app.call("s.echo")
        assert caught.value.retry_after == 3600
        assert server.calls("echo") == 1


@ERAS
@pytest.mark.parametrize("when", ["opening", "calling"])
async def test_a_redirect_to_another_origin_is_not_followed(
    open_sources: OpenSources, era: Era, when: str
) -> None:
    async def token(source: str, principal: object) -> Credential:
        return bearer("s3cret-token")

    async with (
        HttpServer(era) as elsewhere,
        HttpServer(era) as server,
        open_sources({"s": at(server)}, credentials=token) as app,
    ):
        away = Reply(307, {"Location": elsewhere.url})
        if when == "opening":
            server.always("*", away)
            (report,) = await app.sync()
            assert report.error is not None
            assert report.error["status"] == 307
        else:
            await app.sync()
            server.next("echo", away)
            with pytest.raises(ClientError) as caught:
                await app.call("s.echo")
            assert caught.value.status == 307
        assert elsewhere.seen == []


@ERAS
async def test_a_redirect_within_the_origin_is_followed(open_sources: OpenSources, era: Era) -> None:
    async with HttpServer(era) as server, open_sources({"s": at(server)}) as app:
        if era == "sse":
            server.next("GET", Reply(307, {"Location": server.url}))
        else:
            server.next("server/discover", Reply(307, {"Location": f"{server.url}/"}))
            server.next("tools/list", Reply(308, {"Location": f"{server.url}/"}))
        (report,) = await app.sync()
    assert report.error is None


async def test_a_redirect_in_a_circle_ends(open_sources: OpenSources) -> None:
    async with HttpServer("sse") as server, open_sources({"s": at(server, transport="sse")}) as app:
        server.always("GET", Reply(307, {"Location": server.url}))
        (report,) = await app.sync()
    assert report.error is not None
    assert report.error["status"] == 307


@pytest.mark.parametrize("transport", ["auto", "http", "sse"])
async def test_a_server_that_is_not_there_is_a_connection_error(
    open_sources: OpenSources, transport: str
) -> None:
    server = HttpServer()
    await server.start()
    await server.stop()
    async with open_sources({"s": at(server, transport=transport)}) as app:
        (report,) = await app.sync()
    assert report.error is not None
    assert report.error["category"] == "connection"
    assert "cannot reach 's'" in report.error["message"]


async def test_a_transport_that_was_chosen_is_not_changed(open_sources: OpenSources) -> None:
    async with (
        HttpServer("sse") as old,
        HttpServer("modern") as new,
        open_sources({"a": at(old, transport="http"), "b": at(new, transport="sse")}) as app,
    ):
        reports = await app.sync()
    assert [report.error["status"] for report in reports if report.error] == [405, 405]


async def test_a_protocol_that_was_chosen_is_not_changed(open_sources: OpenSources) -> None:
    async with (
        HttpServer("handshake") as old,
        HttpServer("modern") as new,
        open_sources({"a": at(old, protocol="2026-07-28"), "b": at(new, protocol="handshake")}) as app,
    ):
        reports = await app.sync()
        assert all(report.error for report in reports)
        assert "initialize" not in old.methods()
        assert "server/discover" not in new.methods()


async def test_a_server_that_never_answers_is_given_up_after_the_connect_timeout(
    open_sources: OpenSources,
) -> None:
    async with (
        HttpServer("modern") as server,
        open_sources({"s": at(server, connect_timeout=0.2, timeout=1000)}) as app,
    ):
        server.always("*", "hang")
        (report,) = await app.sync()
    assert report.error is not None
    assert "was not ready within 0.2 s" in report.error["message"]


async def test_the_older_transport_posts_to_no_other_origin(open_sources: OpenSources) -> None:
    async with HttpServer("sse") as elsewhere, HttpServer("sse") as server:
        event = f"event: endpoint\ndata: http://127.0.0.1:{elsewhere.port}/message\n\n".encode()
        server.always("GET", Reply(200, {}, event, "text/event-stream"))
        async with open_sources({"s": at(server, transport="sse")}) as app:
            (report,) = await app.sync()
        assert report.error is not None
        assert "another origin" in report.error["message"]
        assert elsewhere.seen == []


@pytest.mark.parametrize("body", [b"", b": nothing but a comment\n\n"])
async def test_a_stream_that_ends_before_it_says_where_to_post_is_an_error(
    open_sources: OpenSources, body: bytes
) -> None:
    async with HttpServer("sse") as server:
        server.always("GET", Reply(200, {}, body, "text/event-stream"))
        async with open_sources({"s": at(server, transport="sse")}) as app:
            (report,) = await app.sync()
    assert report.error is not None
    assert report.error["category"] == ConnectionFailedError.category
    assert "before it said where to post to" in report.error["message"]


async def test_a_page_instead_of_a_stream_of_events_is_an_error(open_sources: OpenSources) -> None:
    async with HttpServer("sse") as server:
        server.always("GET", Reply(200, {}, b"<html>", "text/html"))
        async with open_sources({"s": at(server, transport="sse")}) as app:
            (report,) = await app.sync()
    assert report.error is not None
    assert "no stream of events" in report.error["message"]


# --- errors that a server answers with, and answers that never came


@pytest.mark.parametrize(("era", "answers"), ANSWERS)
async def test_an_error_of_the_protocol_is_an_answer_of_a_server_that_is_well(
    open_sources: OpenSources, era: Era, answers: Literal["json", "sse"]
) -> None:
    error = {"code": -32000, "message": "the upstream broke"}
    settings = {"breaker": {"failures": 1, "cooldown": 60}}
    async with HttpServer(era, answers) as server, open_sources({"s": at(server, **settings)}) as app:
        server.refuse_with("read", error)
        for _ in range(3):
            with pytest.raises(ServerError, match="the upstream broke") as caught:
                await app.call("s.read")
            assert (caught.value.answered, caught.value.retryable) == (True, False)
        server.refuse_with("read", {**error, "data": {"status": 429, "retryAfterMs": 2}})
        with pytest.raises(RateLimitedError) as limited:
            await app.call("s.read")
        assert (await app.call("s.echo", text="well")).text == "well"
        assert server.calls("read") == 3 + 3
    assert (limited.value.status, limited.value.retry_after, limited.value.retryable) == (429, 0.002, True)


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_a_stream_that_ends_without_the_answer_is_a_lost_connection(
    open_sources: OpenSources, era: Era
) -> None:
    ended = Reply(200, {}, b": nothing more\n\n", "text/event-stream")
    async with HttpServer(era) as server, open_sources({"s": at(server)}) as app:
        await app.sync()
        server.always("read", ended)
        with pytest.raises(ConnectionFailedError) as caught:
            await app.call("s.read")
    assert not caught.value.answered


@pytest.mark.parametrize("era", ["handshake", "modern"])
@pytest.mark.parametrize(
    ("status", "headers", "error", "kind", "retryable"),
    [
        (500, {}, {"code": -32603, "message": "x"}, ServerError, False),
        (503, {}, {"code": -32000, "message": "x"}, ServerError, True),
        (503, {"Retry-After": "0"}, {"code": -32000, "message": "x"}, RateLimitedError, True),
        (429, {}, {"code": -32000, "message": "x"}, RateLimitedError, True),
        (400, {}, {"code": -32000, "message": "x"}, ClientError, False),
        (400, {}, {"code": -32000, "message": "x", "data": {"status": 404}}, NotFoundError, False),
        (500, {}, {"code": -32001, "message": "x"}, ServerError, False),
        (400, {}, {"code": -32700, "message": "x"}, ClientError, False),
    ],
)
async def test_a_general_error_of_the_protocol_means_what_its_status_says(
    open_sources: OpenSources,
    era: Era,
    status: int,
    headers: dict[str, str],
    error: dict[str, Any],
    kind: type[SpindleError],
    retryable: bool,
) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
    async with HttpServer(era) as server, open_sources({"s": at(server)}) as app:
        await app.sync()
        server.always("read", Reply(status, headers, body, "application/json"))
        with pytest.raises(kind) as caught:
            await app.call("s.read")
        assert server.calls("read") == (3 if retryable else 1)
    assert type(caught.value) is kind
    assert caught.value.retryable is retryable
