"""The audit log, the access log and logs as JSON, of servers as they run."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

import spindle
from servers.rest import RestWorkspace
from servers.serving import ERAS, served
from spindle.app import Spindle
from spindle.cli.context import CliContext
from spindle.cli.logs import logging_as
from spindle.cli.output import Output
from spindle.domain.audit import AuditEntry, AuditFilter
from spindle.domain.identity import Principal
from spindle.domain.serve import ServeConfig
from spindle.errors import StoreError
from spindle.listening.response import Response
from spindle.serving.access import ServingAccess
from spindle.serving.audit import MOST, STRANGERS, AuditLog
from spindle.serving.auditing import audited
from spindle.serving.problems import problem, respond
from spindle.settings import Settings

TOKENS = """
[serve]
excluded_tools = ["fail"]
[serve.tokens]
ann = { token = "token-of-ann-and-nobody-else" }
"""
ANN = "token-of-ann-and-nobody-else"


def rows(rest: RestWorkspace, *words: str) -> list[tuple[str, str, str, bool, str]]:
    found = rest.json("audit", "--json", *words)
    return [
        (entry.get("principal", ""), entry["action"], entry["target"], entry["allowed"], entry["outcome"])
        for entry in found
    ]


def test_a_server_notes_calls_lists_and_what_it_refuses(rest: RestWorkspace) -> None:
    rest.settings(TOKENS)
    with rest.serve(token=ANN) as served:
        assert served.call("say", text="a secret word").status_code == 200
        assert served.call("fail", why="x").status_code == 404
        assert served.client.get("/openapi.json").status_code == 200
        wrong = {"authorization": "Bearer not-the-token"}
        assert served.client.post("/tools/say", json={"text": "x"}, headers=wrong).status_code == 401
        assert served.client.get("/openapi.json", headers={"host": "evil.example"}).status_code == 421
        assert served.call("say").status_code == 400
        served.stop()
    assert rows(rest) == [
        ("ann", "call", "say", True, "invalid_arguments"),
        ("", "enter", "GET /openapi.json", False, "permission"),
        ("", "enter", "POST /tools/say", False, "auth"),
        ("ann", "list.tools", "/openapi.json", True, "ok"),
        ("ann", "call", "fail", False, "not_found"),
        ("ann", "call", "say", True, "ok"),
    ]
    text = rest.spindle("audit", "--export").stdout
    assert "secret word" not in text
    assert "not-the-token" not in text
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["id"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert lines[0]["call"] == rest.json("history", "--json")[-1]["key"]
    assert lines[3]["address"] == "127.0.0.1"
    assert rows(rest, "--refused", "--as", "ann") == [("ann", "call", "fail", False, "not_found")]
    assert rows(rest, "--since", "1h", "--until", "2001-01-01") == []
    assert [row[1] for row in rows(rest, "--action", "list", "--limit", "9")] == ["list.tools"]


def test_a_time_that_is_none_is_told(rest: RestWorkspace) -> None:
    done = rest.spindle("audit", "--since", "yesterday")
    assert done.returncode == 2
    assert "2026-11-17T09:30" in done.stderr
    assert "Traceback" not in done.stderr


def test_only_refusals_if_the_settings_say_so_and_nothing_if_off(rest: RestWorkspace) -> None:
    for audit, expected in (("refusals", 1), ("off", 0)):
        rest.settings(TOKENS.replace("[serve]", f'[serve]\naudit = "{audit}"'))
        with rest.serve(token=ANN) as served:
            served.call("say", text="x")
            served.client.post("/tools/say", headers={"authorization": "Bearer x"})
            served.stop()
        assert len(rows(rest, "--since", "1h")) == expected
        rest.spindle("audit")
        if expected:
            assert rows(rest)[0][1] == "enter"
        else:
            break
        (rest.root / ".spindle" / "state.db").unlink()


def test_logs_are_lines_of_json_with_the_requests_among_them(rest: RestWorkspace) -> None:
    rest.settings(TOKENS)
    with rest.serve("--log", "json", "--access-log", token=ANN) as served:
        served.call("say", text="x")
        served.client.get("/openapi.json?key=abc", headers={"authorization": "Bearer wrong-one"})
        _, err = served.stop()
    lines = [json.loads(line) for line in err.splitlines()]
    requests = [line for line in lines if line["logger"] == "spindle.access"]
    told = [(line["principal"], line["method"], line["path"], line["status"]) for line in requests]
    assert told == [("ann", "POST", "/tools/say", 200), ("", "GET", "/openapi.json", 401)]
    assert requests[0]["bytes"] > 0
    assert requests[0]["ms"] > 0
    assert requests[0]["address"] == "127.0.0.1"
    assert "wrong-one" not in err
    assert "abc" not in err
    assert all(line["time"].endswith("Z") and line["level"] for line in lines)


def test_a_library_with_a_log_of_its_own_writes_no_text_between_lines_of_json(
    capsys: pytest.CaptureFixture[str],
) -> None:
    other = logging.StreamHandler(sys.stderr)
    other.setFormatter(logging.Formatter("TEXT %(message)s"))
    root = logging.getLogger()
    root.addHandler(other)
    try:
        cli = CliContext(Output(sys.stdout, sys.stderr))
        with logging_as(cli, "json", requests=False):
            cli.output.note("something is said")
            logging.getLogger("a.library").warning("and logged")
        lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
        assert [line["message"] for line in lines] == ["something is said", "and logged"]
        logging.getLogger("a.library").warning("later")
        assert capsys.readouterr().err == "TEXT later\n"
    finally:
        root.removeHandler(other)


def test_the_access_log_is_text_for_people_and_off_unless_wanted(rest: RestWorkspace) -> None:
    with rest.serve() as served:
        served.call("say", text="x")
        _, quiet = served.stop()
    assert "POST /tools/say" not in quiet
    with rest.serve("--access-log") as served:
        served.call("say", text="x")
        served.client.get("/nowhere/%1b[31m")
        _, err = served.stop()
    assert '127.0.0.1 local "POST /tools/say" 200' in err
    assert "\x1b" not in err


@pytest.mark.parametrize("mode", ERAS.values(), ids=ERAS)
async def test_requests_over_mcp_are_noted(tmp_path: Path, mode: Any) -> None:
    def greet(name: str) -> str:
        return name

    async with spindle.open(settings=Settings(tmp_path, {"store": ":memory:"}), tools=[greet]) as app:
        access = ServingAccess.of(ServeConfig(port=0), {})
        async with (
            audited(app, access, "http", print),
            served(app, access=access) as url,
            Client(url, mode=mode) as client,
        ):
            await client.list_tools()
            await client.call_tool("greet", {"name": "x"})
            with pytest.raises(Exception, match="Unknown tool"):
                await client.call_tool("greed", {})
            with pytest.raises(Exception, match="nothing"):
                await client.read_resource("file:///nothing")
        found = await noted(app)
    assert ("call", "greet", True, "ok") in found
    assert ("call", "greed", False, "not_found") in found
    assert ("list.tools", "", True, "ok") in found
    assert ("read", "file:///nothing", False, "not_found") in found


async def noted(app: Spindle) -> list[tuple[str, str, bool, str]]:
    entries = await app.store.audit(AuditFilter(), limit=99)
    return [(entry.action, entry.target, entry.allowed, entry.outcome) for entry in entries]


class BrokenStore:
    def __init__(self) -> None:
        self.broken = True
        self.entries: list[AuditEntry] = []

    async def append_audit(self, entries: list[AuditEntry]) -> None:
        if self.broken:
            raise StoreError("the disk is full")
        self.entries += entries

    async def audit(self, *_: Any, **__: Any) -> list[AuditEntry]:
        return self.entries


async def test_entries_wait_while_the_store_is_broken_and_what_is_lost_is_counted() -> None:
    store, notes = BrokenStore(), list[str]()
    log = AuditLog(store, notes.append, door="http")
    for number in range(MOST + 7):
        log.did(Principal("ann"), "read", f"x:{number}")
    log._begin()
    assert log._writing is not None
    await asyncio.gather(log._writing)
    store.broken = False
    await log.close()
    assert len(store.entries) == MOST + 1
    assert "7 entries" in next(entry for entry in store.entries if entry.action == "audit.lost").reason
    assert [note.partition(",")[0] for note in notes] == [
        "the audit log cannot be written",
        "the audit log is written again",
    ]


class BusyStore(BrokenStore):
    """One for which further entries come while it writes."""

    log: AuditLog
    writes = 0

    async def append_audit(self, entries: list[AuditEntry]) -> None:
        self.writes += 1
        if self.writes < 5:
            self.log.did(Principal("ann"), "read", f"x:{self.writes}")
        self.entries += entries


async def test_entries_that_come_while_others_are_written_wait_for_the_next_time() -> None:
    store = BusyStore()
    log = store.log = AuditLog(store, print, door="http")
    log.did(Principal("ann"), "read", "x:0")
    log._begin()
    assert log._writing is not None
    await asyncio.gather(log._writing)
    assert [entry.target for entry in store.entries] == ["x:0"]
    assert log._timer is not None
    await log.close()
    assert [entry.target for entry in store.entries] == ["x:0", "x:1", "x:2", "x:3", "x:4"]


async def test_a_flood_of_strangers_fills_no_log() -> None:
    store, now = BrokenStore(), [60_000.0]
    store.broken = False
    log = AuditLog(store, print, door="http", now=lambda: now[0])
    scope = {"method": "POST", "path": "/mcp", "client": ("203.0.113.5", 1)}
    refusal: Response = respond(problem(401, "auth", "the bearer token is not valid"))
    for _ in range(STRANGERS + 500):
        log.turned_away(scope, refusal)
    log.turned_away({**scope, "client": ("203.0.113.6", 1)}, refusal)
    now[0] += 60
    log.turned_away(scope, refusal)
    await log.close()
    assert len(store.entries) == STRANGERS + 2
    assert store.entries[-1].reason == "the bearer token is not valid (500 more before were not noted)"
