"""Calling tools over HTTP: forms of answers, errors, streams, giving up, stopping."""

from __future__ import annotations

import http.server
import json
import os
import signal
import socket
import threading
from pathlib import Path
from typing import Any

import httpx2
import pytest

from servers import warm
from servers.rest import RestWorkspace, Served
from servers.running import PATIENCE

WHOLE = "application/vnd.spindle.result+json"


def events(text: str) -> list[tuple[str, Any]]:
    found = []
    for block in text.strip().split("\n\n"):
        name, data = block.split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


def wait_for_file(path: Path) -> None:
    condition = threading.Event()
    for _ in range(int(PATIENCE * 100)):
        if path.exists():
            return
        condition.wait(0.01)
    raise AssertionError(f"{path} did not come")


def test_arguments_keep_their_types_and_structured_data_is_json(served: Served) -> None:
    given = {"text": "é\n", "count": 2**70, "tags": ["a", ""], "deep": {"n": None, "f": 1.5}, "flag": True}
    answer = served.call("echo", **given)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert json.loads(answer.text) == {**given, "nothing": None}
    assert served.call("echo", text="x", nothing=None).json()["tags"] is None


def test_text_is_text_and_other_parts_make_a_whole_result(served: Served) -> None:
    said = served.call("say", text='{"not": "JSON"}')
    assert (said.headers["content-type"], said.text) == ("text/plain; charset=utf-8", '{"not": "JSON"}')
    drawn = served.call("picture")
    assert drawn.headers["content-type"] == WHOLE
    assert drawn.json()["content"][1] == {"type": "image", "data": "iVBORw0K", "mime_type": "image/png"}
    whole = served.call("say", accept=WHOLE, text="x")
    assert whole.headers["content-type"] == WHOLE
    assert whole.json() == {
        "content": [{"type": "text", "text": "x"}], "structured": None, "is_error": False,
    }  # fmt: skip
    # Who also takes JSON gets the plain form, as an importer does that asks for all that is promised.
    assert served.call("say", accept=f"{WHOLE}, text/event-stream, application/json", text="x").text == "x"


def test_what_spindle_keeps_in_a_file_reaches_a_client_that_cannot_open_it(served: Served) -> None:
    [block] = served.call("large").json()["content"]
    assert "path" not in block
    assert len(block["data"]) > 200_000


def test_no_body_means_no_arguments(served: Served) -> None:
    assert served.client.post("/tools/hello").status_code == 200


@pytest.mark.parametrize(
    ("body", "kind", "status", "says"),
    [
        (b"{", "application/json", 400, "not JSON"),
        (b"[1]", "application/json", 400, "must be a JSON object"),
        (b'{"a":' * 100_000, "application/json", 400, "not JSON"),
        (b"\xff", "application/json", 400, "not JSON"),
        (b'{"text": "x"}', "text/plain", 415, "must be JSON"),
        (b'{"text": 5}', "application/json", 400, "text: 5 is not of type"),
        (b'{"text": "x", "txet": 1}', "application/json", 400, "txet"),
        (b'{"text": "' + b"x" * 5_000_000 + b'"}', "application/json", 413, "larger than"),
    ],
    ids=range(8),
)
def test_a_body_that_cannot_be_arguments_is_refused(
    served: Served, body: bytes, kind: str, status: int, says: str
) -> None:
    answer = served.client.post("/tools/echo", content=body, headers={"content-type": kind})
    problem = answer.json()
    assert (answer.status_code, problem["status"], problem["category"]) == (
        status, status, "invalid_arguments",
    )  # fmt: skip
    assert says in problem["message"]
    assert answer.headers["content-type"] == "application/problem+json"


def test_errors_have_a_status_and_say_what_to_do(served: Served) -> None:
    failed = served.call("fail", why="no good")
    assert (failed.status_code, failed.json()["category"]) == (422, "tool")
    assert failed.json()["message"] == "ValueError: no good"
    missing = served.call("grwo")
    assert (missing.status_code, missing.json()["hint"]) == (404, "did you mean 'grow'?")
    assert served.client.get("/tools/echo").status_code == 405
    nowhere = served.client.get("/tool/echo")
    assert (nowhere.status_code, nowhere.json()["category"]) == (404, "not_found")
    wrong = served.client.get("/utcp?sorce=x")
    assert (wrong.status_code, wrong.json()["hint"]) == (400, "did you mean 'source'?")
    assert served.client.get("/utcp?template=grpc").status_code == 400
    assert served.client.get("/openapi.json?source=none").status_code == 404


def test_a_source_that_is_away_is_a_gateway_error_and_then_left_alone(rest: RestWorkspace) -> None:
    rest.settings(
        '[sources.gone]\nkind = "cli"\nprogram = "./gone"\nbreaker = { failures = 1, cooldown = 60 }\n'
        "retry = { attempts = 1 }\n[sources.gone.commands.go]\n"
        '[sources.slow]\nkind = "cli"\nprogram = "sleep"\ntimeout = 0.1\n'
        '[sources.slow.commands.long]\nargs = ["60"]\n'
    )
    with rest.serve() as served:
        first, second = served.call("gone.go"), served.call("gone.go")
        slow = served.call("slow.long")
    assert (first.status_code, first.json()["category"]) == (502, "connection")
    assert (second.status_code, second.json()["retryable"]) == (503, True)
    assert 0 < int(second.headers["retry-after"]) <= 60
    assert (slow.status_code, slow.json()["category"]) == (504, "timeout")


def test_a_source_that_asks_to_wait_is_passed_on(rest: RestWorkspace) -> None:

    class Busy(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(429)
            self.send_header("Retry-After", "77")
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Busy) as busy:
        threading.Thread(target=busy.serve_forever, daemon=True).start()
        document = {
            "openapi": "3.0.0", "info": {"title": "x", "version": "1"},
            "servers": [{"url": f"http://127.0.0.1:{busy.server_address[1]}"}],
            "paths": {"/x": {"get": {"operationId": "x", "responses": {}}}},
        }  # fmt: skip
        (rest.root / "api.json").write_text(json.dumps(document))
        rest.settings('[sources.api]\nkind = "openapi"\ndocument = "api.json"\nretry = { attempts = 1 }\n')
        assert rest.spindle("sync").returncode == 0
        with rest.serve() as served:
            answer = served.call("api.x")
        busy.shutdown()
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "77")
    assert answer.json()["source_status"] == 429


# --- streams


def test_a_stream_brings_progress_and_then_the_whole_result(served: Served) -> None:
    answer = served.call("count", accept="text/event-stream", to=3)
    assert answer.headers["content-type"].startswith("text/event-stream")
    *steps, last = events(answer.text)
    assert steps == [
        ("progress", {"progress": n, "total": 3, "message": f"at {n}"}) for n in (1, 2, 3)
    ]  # fmt: skip
    assert last[0] == "result"
    assert last[1]["structured"] == 3


def test_a_call_that_fails_before_its_first_event_is_answered_with_its_status(served: Served) -> None:
    for tool, arguments, status in (
        ("count", {"to": "x"}, 400),
        ("fail", {"why": "x"}, 422),
        ("no", {}, 404),
    ):
        answer = served.call(tool, accept="text/event-stream", **arguments)
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")


def test_progress_arrives_while_the_call_runs_and_an_error_ends_the_stream(rest: RestWorkspace) -> None:
    (rest.root / "tools" / "two.py").write_text(
        "import asyncio\nfrom pathlib import Path\nfrom spindle import Context, tool\n"
        "@tool\nasync def half(ctx: Context) -> int:\n"
        "    ctx.progress(1, 2, 'half')\n"
        "    while not (Path(__file__).parent / 'go').exists():\n        await asyncio.sleep(0.01)\n"
        "    raise RuntimeError('broke')\n"
    )
    with rest.serve() as served:
        accept = {"accept": "text/event-stream"}
        with served.client.stream("POST", "/tools/half", headers=accept) as answer:
            lines = answer.iter_lines()
            assert [next(lines), json.loads(next(lines)[6:])["message"]] == ["event: progress", "half"]
            (rest.root / "tools" / "go").touch()
            rest_of_it = events("\n".join(lines))
    [(name, problem)] = rest_of_it
    assert (name, problem["category"], problem["message"]) == ("error", "tool", "RuntimeError: broke")


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_a_client_that_goes_away_gives_its_call_up(served: Served, accept: str) -> None:
    port = httpx2.URL(served.url).port
    assert port is not None
    body = b'{"name": "never"}'
    with socket.create_connection(("127.0.0.1", port)) as raw:
        raw.sendall(
            b"POST /tools/wait_for HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Accept: %s\r\nContent-Length: %d\r\n\r\n%s" % (accept.encode(), len(body), body)
        )
        wait_for_file(served.root / "tools" / "never.begun")
    wait_for_file(served.root / "tools" / "never.cancelled")
    code, said = served.stop()
    assert (code, "Traceback" in said) == (0, False)


# --- stopping


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_call_that_runs_ends_before_the_server_does(rest: RestWorkspace, number: int) -> None:
    with rest.serve() as served:
        answers: list[httpx2.Response] = []
        client = threading.Thread(target=lambda: answers.append(served.call("wait_for", name="file")))
        client.start()
        wait_for_file(rest.root / "tools" / "file.begun")
        served.process.send_signal(number)
        port = httpx2.URL(served.url).port
        assert port is not None
        for _ in range(int(PATIENCE * 100)):  # it takes no more
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)):
                    break
                threading.Event().wait(0.01)
        assert served.process.poll() is None
        (rest.root / "tools" / "file").touch()
        client.join(PATIENCE)
        assert [(answer.status_code, answer.text) for answer in answers] == [(200, "it came")]
        assert served.process.wait(PATIENCE) == 0


def test_a_call_that_does_not_end_is_given_up_after_the_limit(rest: RestWorkspace) -> None:
    rest.settings("[serve]\nshutdown_timeout = 0\n")
    with rest.serve() as served:
        answers: list[httpx2.Response] = []
        client = threading.Thread(target=lambda: answers.append(served.call("wait_for", name="never")))
        client.start()
        wait_for_file(rest.root / "tools" / "never.begun")
        code, said = served.stop()
        client.join(PATIENCE)
    [answer] = answers
    assert (answer.status_code, answer.json()["message"]) == (503, "the server is stopping")
    assert (code, "Traceback" in said) == (0, False)
    assert (rest.root / "tools" / "never.cancelled").exists()


def test_calls_are_recorded_like_any_other(rest: RestWorkspace) -> None:
    with rest.serve() as served:
        served.call("echo", text="x")
        os.kill(warm.pid_of(served.process.pid), signal.SIGKILL)
        served.process.wait(PATIENCE)
    [record] = rest.json("history", "--json")
    assert (record["tool"], record["outcome"], record["principal"]) == ("echo", "ok", "local")
