"""Events over HTTP, sent to a real server and received from a real client."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx2
import pytest
from event_documents import Workspace, document

from servers.brokers import free_port
from servers.running import PATIENCE
from spindle.app import Spindle
from spindle.errors import (
    AuthError,
    BreakerOpenError,
    CallTimeoutError,
    ClientError,
    ConfigurationError,
    ConnectionFailedError,
    ServerError,
    SpindleError,
)
from spindle.http import addresses
from spindle.sources.events.links.signature import problem, signed

Answer = tuple[int, dict[str, str], bytes] | None


class Hook:
    """A server that keeps what it gets and answers what it is told; None: it hangs up without a word."""

    def __init__(self, address: str = "127.0.0.1") -> None:
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self.answers: list[Answer] = []
        self.go_on = threading.Event()
        self.go_on.set()
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def handle_one(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                hook.requests.append((self.command, self.path, headers, body))
                hook.go_on.wait(PATIENCE)
                answer = hook.answers.pop(0) if hook.answers else (204, {}, b"")
                if answer is None:
                    self.close_connection = True
                    self.connection.close()
                    return
                self.send_response(answer[0])
                for name, value in {**answer[1], "content-length": str(len(answer[2]))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer[2])

            do_GET = do_POST = do_PUT = handle_one

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer((address, 0), Handler)
        self.server.daemon_threads = True
        self.host = f"{address}:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.go_on.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def hook() -> Iterator[Hook]:
    made = Hook()
    yield made
    made.close()


PUBLIC = "127.0.0.2"


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hook]:
    """A server at an address that is taken for a public one."""
    monkeypatch.setattr(addresses, "is_inside", lambda address: address == "127.0.0.1")
    made = Hook(PUBLIC)
    yield made
    made.close()


def hooked(workspace: Workspace, hook: Hook, **more: Any) -> None:
    server = {"host": hook.host, "protocol": "http", "pathname": "/hooks"}
    workspace.write("events/a.json", document(server=server, **more))


async def test_an_event_is_one_signed_request(workspace: Workspace, hook: Hook) -> None:
    workspace.settings(
        secret="whsec_" + base64.b64encode(b"hunter2hunter2").decode(),
        auth={"type": "bearer", "token": "sesame-token"},
        headers={"x-team": "a"},
    )
    hooked(workspace, hook)
    async with workspace.open() as app:
        result = await app.call("emit", id=1)
        [record] = await app.history()
    [(method, path, headers, body)] = hook.requests
    assert (method, path) == ("POST", "/hooks/orders/placed")
    assert headers["content-type"] == "application/cloudevents+json"
    assert headers["authorization"] == "Bearer sesame-token"
    assert headers["x-team"] == "a"
    assert json.loads(body)["id"] == record.key == headers["webhook-id"]
    content = f"{record.key}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.digest(b"hunter2hunter2", content, hashlib.sha256)).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    assert result.structured["acknowledged"] == {"status": 204}


async def test_the_queries_of_server_and_channel_are_kept_and_what_follows_a_hash_is_not(
    workspace: Workspace, hook: Hook
) -> None:
    workspace.settings(servers={"main": {"url": f"http://{hook.host}/hooks?team=a#part"}})
    hooked(workspace, hook, address="orders/placed?kind=b#more")
    async with workspace.open() as app:
        await app.call("emit", id=1)
    assert [path for _, path, _, _ in hook.requests] == ["/hooks/orders/placed?team=a&kind=b"]


async def test_binary_mode_where_the_message_has_such_headers(workspace: Workspace, hook: Hook) -> None:
    schema = {"type": "object", "properties": {"ce-type": {"type": "string"}}}
    hooked(workspace, hook, message={"headers": schema})
    async with workspace.open() as app:
        await app.call("emit", id=1)
    [(_, _, headers, body)] = hook.requests
    assert json.loads(body) == {"id": 1}
    assert (headers["ce-type"], headers["ce-specversion"]) == ("Placed", "1.0")


@pytest.mark.parametrize("failure", [(500, {}, b""), (503, {}, b""), (429, {"retry-after": "0"}, b""), None])
async def test_a_failure_is_tried_again_with_the_same_id(
    workspace: Workspace, hook: Hook, failure: Answer
) -> None:
    workspace.settings(retry={"attempts": 3, "wait": 0.001})
    hooked(workspace, hook)
    hook.answers = [failure, failure]
    async with workspace.open() as app:
        await app.call("emit", id=1)
    assert len(hook.requests) == 3
    assert len({json.loads(body)["id"] for *_, body in hook.requests}) == 1


@pytest.mark.parametrize(
    ("status", "error"), [(400, ClientError), (401, AuthError), (307, ClientError), (501, ServerError)]
)
async def test_a_refusal_is_an_error_at_once(
    workspace: Workspace, hook: Hook, status: int, error: type[SpindleError]
) -> None:
    hooked(workspace, hook)
    hook.answers = [(status, {"location": "http://elsewhere"}, b"because")]
    async with workspace.open() as app:
        with pytest.raises(error, match="because"):
            await app.call("emit", id=1)
    assert len(hook.requests) == 1


async def test_a_receiver_that_does_not_answer_is_an_error_in_time(workspace: Workspace, hook: Hook) -> None:
    workspace.settings(publish_timeout=0.1, retry={"attempts": 1})
    hooked(workspace, hook)
    hook.go_on.clear()
    async with workspace.open() as app:
        with pytest.raises(CallTimeoutError, match=r"did not acknowledge the event within 0\.1 s"):
            await app.call("emit", id=1)


async def test_a_receiver_that_is_not_there_is_an_error(workspace: Workspace) -> None:
    workspace.settings(retry={"attempts": 1})
    server = {"host": f"127.0.0.1:{free_port()}", "protocol": "http"}
    workspace.write("events/a.json", document(server=server))
    async with workspace.open() as app:
        with pytest.raises(ConnectionFailedError, match="cannot reach main"):
            await app.call("emit", id=1)


async def test_the_answer_to_a_request_is_its_reply(workspace: Workspace, hook: Hook) -> None:
    content = document(server={"host": hook.host, "protocol": "http"})
    content["operations"]["emit"]["reply"] = {}
    workspace.write("events/a.json", content)
    hook.answers = [(200, {"content-type": "application/json"}, b'{"sum": 3}')]
    async with workspace.open() as app:
        assert (await app.call("emit", a=1)).structured["data"] == {"sum": 3}


async def test_parameters_cannot_leave_their_place_in_the_path(workspace: Workspace, hook: Hook) -> None:
    server = {"host": hook.host, "protocol": "http"}
    workspace.write("events/a.json", document(address="users/{id}/x", server=server))
    async with workspace.open() as app:
        for value in ("../admin", "..", "a?b#c"):
            await app.call("emit", id=value)
    assert [path for _, path, *_ in hook.requests] == [
        "/users/..%2Fadmin/x",
        "/users/%2E%2E/x",
        "/users/a%3Fb%23c/x",
    ]


async def test_a_document_from_elsewhere_may_not_read_the_environment(
    workspace: Workspace, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spindle.sources.events.config import EventsConfig
    from spindle.sources.events.servers import endpoint

    monkeypatch.setenv("SECRET_OF_MINE", "hunter2")
    server = {"name": "main", "protocol": "http", "url": "http://x/${SECRET_OF_MINE}"}
    with pytest.raises(ConfigurationError, match="may not"):
        endpoint(server, EventsConfig(path="a"), "events", remote=True, environ={"SECRET_OF_MINE": "hunter2"})


# --- receiving


@contextlib.asynccontextmanager
async def waiting(app: Spindle, **arguments: Any) -> Any:
    """The tool `wait` at work."""
    task = asyncio.create_task(app.call("wait", arguments))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def send(url: str, **options: Any) -> httpx2.Response:
    """Send until somebody listens."""
    async with httpx2.AsyncClient() as client, asyncio.timeout(PATIENCE):
        while True:
            try:
                return await client.post(url, **options)
            except httpx2.ConnectError:
                await asyncio.sleep(0.01)


async def test_a_webhook_is_received_where_the_settings_say(workspace: Workspace) -> None:
    listen = f"127.0.0.1:{free_port()}"
    workspace.settings(listen=listen, secret="sesame-secret")
    workspace.write("events/a.json", document(server={"host": "example.com", "protocol": "https"}))
    body = json.dumps({"id": 7}).encode()
    async with workspace.open() as app:
        await app.sync()
        async with waiting(app) as task:
            url = f"http://{listen}/orders/placed"
            headers = {"content-type": "application/json"}
            unsigned = await send(url, content=body, headers=headers)
            assert (unsigned.status_code, unsigned.text) == (401, "it is not signed")
            assert (await send(f"http://{listen}/other", content=body)).status_code == 404
            proof = signed("sesame-secret", "m1", body)
            assert (await send(url, content=body, headers={**headers, **proof})).status_code == 202
            result = await asyncio.wait_for(task, PATIENCE)
    assert result.structured["data"] == {"id": 7}


async def test_several_may_wait_at_one_place(workspace: Workspace) -> None:
    listen = f"127.0.0.1:{free_port()}"
    workspace.settings(listen=listen)
    workspace.write("events/a.json", document(server={"host": "example.com", "protocol": "https"}))
    async with workspace.open() as app:
        await app.sync()
        two = [asyncio.create_task(app.call("wait")) for _ in range(2)]
        async with asyncio.timeout(PATIENCE):
            while not all(task.done() for task in two):
                # One may come before both listen; when both have theirs, nobody answers any more.
                sending = asyncio.create_task(send(f"http://{listen}/orders/placed", json={"n": 1}))
                await asyncio.wait([sending, asyncio.gather(*two)], return_when=asyncio.FIRST_COMPLETED)
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
        # And again, on the same port, once nobody waited any more.
        third = asyncio.create_task(app.call("wait"))
        assert (await send(f"http://{listen}/orders/placed", json={"n": 2})).status_code == 202
        assert (await asyncio.wait_for(third, PATIENCE)).structured["data"] == {"n": 2}
    assert [task.result().structured["data"] for task in two] == [{"n": 1}] * 2


async def test_strangers_cannot_send_webhooks_through_a_page_or_another_name(workspace: Workspace) -> None:
    listen = f"127.0.0.1:{free_port()}"
    workspace.settings(listen=listen, allowed_hosts=["hooks.example.com"])
    workspace.write("events/a.json", document(server={"host": "example.com", "protocol": "https"}))
    url = f"http://{listen}/orders/placed"
    plain = {"content-type": "application/json"}
    async with workspace.open() as app:
        await app.sync()
        async with waiting(app) as task:
            refused = {
                421: {"host": "rebound.example"},
                403: {"origin": "https://evil.example"},
                415: {"content-type": "text/plain"},
            }
            for status, headers in refused.items():
                answer = await send(url, content=b'{"id": 1}', headers=plain | headers)
                assert answer.status_code == status, answer.text
            assert (await send(url, content=b'{"id": 1}')).status_code == 415
            large = await send(url, content=b" " * (4 * 1024 * 1024 + 1), headers=plain)
            assert large.status_code == 413
            named = plain | {"host": "hooks.example.com"}
            assert (await send(url, content=b'{"id": 2}', headers=named)).status_code == 202
            result = await asyncio.wait_for(task, PATIENCE)
    assert result.structured["data"] == {"id": 2}


async def test_a_place_that_others_reach_wants_a_secret(workspace: Workspace) -> None:
    workspace.settings(listen=f"0.0.0.0:{free_port()}")
    workspace.write("events/a.json", document(server={"host": "example.com", "protocol": "https"}))
    async with workspace.open() as app:
        with pytest.raises(ConfigurationError, match="can be reached by others") as caught:
            await app.call("wait")
    assert "secret" in str(caught.value.hint)
    workspace.settings(listen=f"0.0.0.0:{free_port()}", secret="sesame-secret")
    async with workspace.open() as app:
        result = await app.call("wait", {"timeout": 0.05})
    assert result.category == "timeout", "it listens, and nobody sends anything"


async def test_sources_that_share_a_place_each_keep_their_secret(workspace: Workspace) -> None:
    from spindle.sources.events.links.receiver import Receiver

    receiver = Receiver(f"127.0.0.1:{free_port()}", ("one-secret", "other-secret"), 1000)
    async with receiver.subscribe() as inbox:
        statuses = [
            (await send(f"{receiver.url}/x", content=b"1", headers=headers)).status_code
            for headers in (
                {"content-type": "application/json"},
                signed("wrong-secret", "m", b"1"),
                signed("one-secret", "m", b"1"),
                signed("other-secret", "m", b"1"),
            )
        ]
        assert statuses == [401, 401, 202, 202]
        assert [(await anext(inbox)).event.data for _ in range(2)] == [1, 1]


async def test_who_sends_half_a_webhook_ends_with_the_receiver(workspace: Workspace) -> None:
    from spindle.sources.events.links.receiver import Receiver

    receiver = Receiver(f"127.0.0.1:{free_port()}", (), 1000)
    async with receiver.subscribe():
        reader, writer = await asyncio.open_connection("127.0.0.1", httpx2.URL(receiver.url).port)
        writer.write(b"POST /x HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 40_000)
        async with asyncio.timeout(PATIENCE):
            assert (await reader.read()).startswith(b"HTTP/1.1 431 ")
        writer.close()
        _, half = await asyncio.open_connection("127.0.0.1", httpx2.URL(receiver.url).port)
        half.write(b"POST /x HT")
    half.close()


async def test_waiting_for_webhooks_without_a_place_says_what_to_set(workspace: Workspace) -> None:
    workspace.write("events/a.json", document(server={"host": "example.com", "protocol": "https"}))
    async with workspace.open() as app:
        with pytest.raises(ConfigurationError) as caught:
            await app.call("wait")
    assert "sources.events.listen" in str(caught.value.hint)


def test_a_signature_proves_body_time_and_secret() -> None:
    headers = signed("a secret", "id", b"body", now=1000)
    assert problem("a secret", headers, b"body", now=1100) is None
    assert (
        problem(
            "a secret",
            {**headers, "webhook-signature": "v1,x " + headers["webhook-signature"]},
            b"body",
            now=1000,
        )
        is None
    )
    assert problem("a secret", headers, b"other", now=1000) == "its signature is wrong"
    assert problem("another", headers, b"body", now=1000) == "its signature is wrong"
    assert "too old" in str(problem("a secret", headers, b"body", now=2000))
    assert "in the future" in str(problem("a secret", headers, b"body", now=0))
    assert (
        problem("a secret", {**headers, "webhook-timestamp": "x"}, b"body") == "its timestamp is not a number"
    )


def offered(workspace: Workspace, at: Hook, host: str, **settings: Any) -> None:
    """A document that comes from a URL and names a server."""
    found = document(server={"host": host, "protocol": "http"})
    at.answers = [(200, {"content-type": "application/json"}, json.dumps(found).encode())]
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    text = f'[sources.shop]\nkind = "events"\nurl = "http://{at.host}/asyncapi.json"\n'
    workspace.write("spindle.toml", text + "\n".join(lines) + "\n")


async def test_a_document_may_come_from_a_url(workspace: Workspace, hook: Hook) -> None:
    offered(workspace, hook, hook.host)
    async with workspace.open() as app:
        assert (await app.call("shop.emit", id=1)).structured["acknowledged"] == {"status": 204}
    assert [(method, path) for method, path, *_ in hook.requests] == [
        ("GET", "/asyncapi.json"), ("POST", "/orders/placed"),
    ]  # fmt: skip


async def test_a_url_that_holds_no_document_is_named(workspace: Workspace, hook: Hook) -> None:
    offered(workspace, hook, hook.host)
    hook.answers = [(200, {}, b"<html></html>")] * 2
    async with workspace.open() as app:
        with pytest.raises(SpindleError, match="is an HTML page, not an AsyncAPI document"):
            await app.call("shop.emit", id=1)


async def test_a_document_from_elsewhere_may_not_send_events_here(
    workspace: Workspace, hook: Hook, elsewhere: Hook
) -> None:
    offered(workspace, elsewhere, hook.host)
    async with workspace.open() as app:
        with pytest.raises(ConfigurationError, match="on this machine or a private network") as caught:
            await app.call("shop.emit", id=1)
        assert not caught.value.sent
    assert hook.requests == []
    offered(workspace, elsewhere, hook.host, allow_private=True)
    async with workspace.open() as app:
        await app.call("shop.emit", id=1)
    assert len(hook.requests) == 1


async def test_a_name_that_leads_here_when_it_is_connected_gets_no_event(
    workspace: Workspace, hook: Hook, elsewhere: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A name server that gives one answer to who checks, and another to who connects.
    found = {"rebind.test": [PUBLIC]}

    async def addresses_of(host: str) -> list[str]:
        answer = found.get(host, [host])
        if host == "rebind.test":
            found[host] = ["127.0.0.1"]
        return answer

    monkeypatch.setattr(addresses, "addresses_of", addresses_of)
    offered(workspace, elsewhere, f"rebind.test:{hook.server.server_port}")
    async with workspace.open() as app:
        with pytest.raises(ConfigurationError, match="on this machine or a private network") as caught:
            await app.call("shop.emit", id=1)
        assert not caught.value.sent
    assert found["rebind.test"] == ["127.0.0.1"]
    assert hook.requests == []


async def test_each_server_of_the_documents_is_left_alone_by_itself(workspace: Workspace, hook: Hook) -> None:
    workspace.settings(retry={"attempts": 1}, breaker={"failures": 2})
    gone = f"127.0.0.1:{free_port()}"
    reference = {"$ref": "#/channels/c"}
    operations = {"emit_there": {"action": "send", "channel": reference, "x-agent-tool": True}}
    workspace.write(
        "events/a.json",
        document(server={"host": hook.host, "protocol": "http", "pathname": "/hooks"}),
    )
    workspace.write(
        "events/b.json", document(server={"host": gone, "protocol": "http"}, operations=operations)
    )
    async with workspace.open() as app:
        for _ in range(2):
            with pytest.raises(ConnectionFailedError, match="cannot reach main"):
                await app.call("emit_there", id=1)
        assert not (await app.call("emit", id=1)).is_error
        with pytest.raises(BreakerOpenError, match=rf"'events' at main \(http://{gone}\) failed 2 times"):
            await app.call("emit_there", id=1)
    assert len(hook.requests) == 1
