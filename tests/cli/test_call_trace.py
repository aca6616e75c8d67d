"""`spindle call --trace`, and what `spindle history KEY` keeps of a result."""

from __future__ import annotations

import re

import pytest

from servers.http_server import HttpServer, Reply
from spindle.calls.options import CallOptions

PARTS = [
    "open",
    "read",
    "start",
    "find",
    "settings",
    "permission",
    "validate",
    "credential",
    "cache",
    "limits",
    "connect",
]
TOOLS = '''
from spindle import tool


@tool
def login(password: str, count: int = 1) -> str:
    """Log in."""
    return f"{password} " * count


@tool
def table() -> dict[str, int]:
    return {"a": 1}


@tool
def large() -> list[str]:
    return ["x" * 100] * 1000
'''


@pytest.fixture
def server(workspace):
    workspace.add_server()
    return workspace


def test_the_path_of_a_call_is_shown_on_stderr(server, spindle):
    done = spindle("call", "echo", "text=hi", "--trace")
    assert done.out == '{"text": "hi"}\n'
    heading, *lines = done.err.splitlines()
    assert re.fullmatch(r"trace of mini\.echo: \d+(\.\d+)? m?s", heading)
    shown = [re.fullmatch(r"  (.*?)  +(\d+\.\d) ms(  [#█]+)?|  .*\d+\.\d+ s.*", line) for line in lines]
    assert all(shown)
    assert [line.split("  ")[1].strip() for line in lines] == [
        "open the workspace",
        "read the arguments",
        "start the run",
        "find the tool",
        "read its source's settings",
        "check permission",
        "check the arguments",
        "get the credential",
        "look into the cache",
        "wait for a free place",
        "get a session",
        "the call itself",
        "check the result",
        "record the call",
        "show the result",
    ]


def test_a_trace_is_part_of_the_json(server, spindle):
    whole = spindle("call", "--trace", "--json", "data").json
    assert whole["structured"] == {"a": 1}
    assert [part["part"] for part in whole["trace"]] == [*PARTS, "call", "check", "record"]
    assert all(part["seconds"] >= 0 for part in whole["trace"])
    assert "trace" not in spindle("call", "--json", "data").json


def test_the_parts_add_up_to_what_is_recorded(server, spindle):
    trace = spindle("call", "--trace", "--json", "data").json["trace"]
    record = spindle("history", "--json").json[0]
    own = [part["seconds"] for part in trace if part["part"] not in ("open", "read", "start", "record")]
    assert abs(sum(own) - record["duration"]) < 0.05


def test_a_call_that_fails_shows_how_far_it_came(server, spindle):
    done = spindle("call", "echo", "--trace", "count=1")
    assert done.code == 4
    assert [line.split("  ")[1] for line in done.err.splitlines() if line.startswith("  ")][-3:-1] == [
        "check the arguments",
        "record the call",
    ]


async def test_each_attempt_and_each_wait_is_a_part_of_its_own(open_sources):
    limits = {"retry": {"attempts": 2, "wait": 0}, "rate_limit": "100/s"}
    async with HttpServer() as server, open_sources({"s": {"url": server.url, **limits}}) as app:
        await app.sync()
        server.next("read", Reply(503))
        passed = []
        await app.call("s.read", {}, CallOptions(on_stage=passed.append))
    assert passed[passed.index("limits") :] == [
        *("limits", "rate", "connect", "call", "wait"),
        *("limits", "rate", "connect", "call", "check", "record"),
    ]


def test_an_answer_from_the_cache_is_no_call(workspace, spindle):
    workspace.add_server()
    text = (workspace.root / "spindle.toml").read_text()
    workspace.write("spindle.toml", text + "cache = { ttl = 60, tools = ['.*'] }\n")
    first = [part["part"] for part in spindle("call", "--trace", "--json", "data").json["trace"]]
    second = [part["part"] for part in spindle("call", "--trace", "--json", "data").json["trace"]]
    assert first[-3:] == ["check", "keep", "record"]
    assert second[-2:] == ["cache", "record"]


def last(spindle) -> str:
    return spindle("history", "--json", "--limit", "1").json[0]["key"]


def test_history_shows_the_result(server, spindle):
    spindle("call", "echo", "text=hi")
    assert 'result:    {"text": "hi"}\n' in spindle("history", last(spindle)).out
    spindle("call", "picture")
    out = spindle("history", last(spindle)).out
    assert "result:    look:\n[image, image/png]\n(not kept: image)\n" in out
    assert spindle("history", last(spindle), "--json").json["result"]["left_out"] == ["image"]


def test_a_kept_result_has_no_secrets_and_an_end(workspace, spindle):
    workspace.write("tools/t.py", TOOLS)
    spindle("call", "login", "password=geheim", "count=2")
    out = spindle("history", last(spindle)).out
    assert "geheim" not in out
    assert "result:    ••• •••" in out
    spindle("call", "login", "password=geheim", "count=2000")
    assert "… (" in spindle("history", last(spindle)).out
    spindle("call", "table")
    assert '{"a":1}' in spindle("history", last(spindle)).out
    spindle("call", "large")
    kept = spindle("history", last(spindle), "--json").json["result"]
    assert len(str(kept)) < 100_000
    assert kept["left_out"]


def test_results_of_other_callers_are_not_kept(workspace, spindle):
    import spindle as library

    workspace.write("tools/t.py", TOOLS)
    with library.open(workspace.root) as opened:
        opened.call("table")
    assert spindle("history", "--json").json[0]["result"] is None
    assert "result:" not in spindle("history", last(spindle)).out
