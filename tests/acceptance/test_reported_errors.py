"""The category of an error that a tool reports, from where it is raised to everybody who learns of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import spindle
from servers import warm
from servers.rest import RestWorkspace
from servers.running import OpenSources, StdioServers
from spindle import CallOptions, Context, RateLimitedError, tool
from spindle.errors import NotFoundError, SpindleError
from spindle.flows import Flow, ToolNode

TOOLS = '''
import spindle
from spindle import Context, tool

ERRORS = {kind.category: kind for kind in spindle.SpindleError.__subclasses__()}


@tool
def report(category: str) -> str:
    """Raises an error of Spindle."""
    raise ERRORS[category]("as asked", retry_after=0.5 if category == "rate_limited" else None)


@tool(read_only=True)
async def through(category: str, context: Context) -> str:
    """Makes a call that fails, and lets it."""
    raised = await context.call("report", {"category": category})
    if raised.is_error:
        raise ERRORS[raised.category](raised.text)
    return "unharmed"


@tool
async def missing(context: Context) -> str:
    """Calls what is not there."""
    return (await context.call("nowhere", {})).text
'''
MOD = """
from spindle import PermissionDeniedError

class Guard:
    def get_tools(self):
        return [self.enter]

    def enter(self) -> str:
        "Lets nobody in."
        raise PermissionDeniedError("not today", status=403)
"""
NODE = '''
from spindle import NotFoundError
from spindle.flows import Node

class Seek(Node):
    """Looks for it.

    Writes: found (str)
    """

    def exec(self, prep_res):
        raise NotFoundError("not in the drawer")
'''
FLOW = """
version: 1
nodes:
  - {id: work, tool: report, params: {category: "${category}"}}
  - {id: told, tool: told, params: {category: "${work.error.category}", action: "${work.error.action}"}}
inputs:
  category: {type: string}
edges:
  - {from: work, to: told, action: ACTION}
"""
CATEGORIES = ["auth", "client", "connection", "not_found", "permission", "rate_limited", "server", "timeout"]
ACTIONS = {
    "auth": "auth_failed", "client": "error", "connection": "server_error", "not_found": "resource_missing",
    "permission": "auth_failed", "rate_limited": "rate_limited", "server": "server_error",
    "timeout": "timeout",
}  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name, text in {"tools/t.py": TOOLS, "mods/guard.py": MOD, "flows/seek.py": NODE}.items():
        file = tmp_path / "home" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (tmp_path / "home" / "spindle.toml").touch()
    return tmp_path / "home"


@pytest.mark.parametrize("category", CATEGORIES)
async def test_a_python_tool_that_raises_an_error_of_ours_reports_its_category(
    home: Path, category: str
) -> None:
    async with spindle.open(home) as app:
        result = await app.call("report", category=category)
        passed = await app.call("through", category=category)
        (second, inner, first) = await app.history(limit=3)
    assert (result.is_error, result.category, result.text) == (True, category, "as asked")
    assert (passed.is_error, passed.category) == (True, category)
    assert [first.outcome, inner.outcome, second.outcome] == [category] * 3
    assert result.failure is not None
    assert result.failure.file == "tools/t.py"


async def test_what_a_tool_lets_pass_of_its_own_calls_keeps_its_category(home: Path) -> None:
    async with spindle.open(home) as app:
        assert (await app.call("missing")).category == "not_found"


async def test_a_python_tool_that_asks_to_wait_is_repeated_only_where_that_is_harmless(
    tmp_path: Path,
) -> None:
    tries: list[str] = []

    @tool
    def pay() -> str:
        tries.append("pay")
        raise RateLimitedError("later", retry_after=0.001)

    @tool(read_only=True)
    def look() -> str:
        tries.append("look")
        raise RateLimitedError("later", retry_after=0.001)

    async with spindle.open(tmp_path, tools=[pay, look]) as app:
        paid, looked = await app.call("pay"), await app.call("look")
    assert tries == ["pay", "look", "look", "look"]
    assert paid.meaning is not None
    assert looked.meaning is not None
    assert (paid.meaning.retryable, looked.meaning.retryable) == (False, True)


async def test_mods_and_nodes_keep_the_category_too(home: Path) -> None:
    async with spindle.open(home) as app:
        refused = await app.call("enter")
        with pytest.raises(NotFoundError, match="not in the drawer"):
            await app.call("seek")
        (sought,) = await app.history(limit=1)
    assert (refused.category, refused.meaning and refused.meaning.status) == ("permission", 403)
    assert sought.outcome == "not_found"


@pytest.mark.parametrize("category", CATEGORIES)
async def test_a_flow_takes_the_edge_of_what_a_tool_reports(home: Path, category: str) -> None:
    @tool
    def told(category: str, action: str) -> dict[str, str]:
        return {"category": category, "action": action}

    (home / "flows" / "handled.yaml").write_text(FLOW.replace("ACTION", ACTIONS[category]))
    async with spindle.open(home, tools=[told]) as app:
        result = await app.call("handled", category=category)
    assert not result.is_error
    assert result.structured == {"category": category, "action": ACTIONS[category]}


async def test_a_flow_without_an_edge_fails_with_the_category_and_is_not_repeated(home: Path) -> None:
    calls: list[str] = []

    @tool
    def charge() -> str:
        calls.append("charge")
        return "charged"

    first, second = ToolNode("charge"), ToolNode("report", params={"category": "rate_limited"})
    first >> second
    async with spindle.open(home, tools=[charge]) as app:
        with pytest.raises(RateLimitedError) as caught:
            await app.run_flow(Flow(first, name="pay"))
    assert calls == ["charge"]
    assert not caught.value.retryable


async def test_a_saved_flow_is_not_charged_twice_because_its_last_step_has_to_wait(
    home: Path, open_sources: OpenSources
) -> None:
    calls: list[str] = []

    @tool
    def charge() -> str:
        calls.append("charge")
        return "charged"

    (home / "flows" / "pay.yaml").write_text(
        "version: 1\nnodes:\n  - {id: a, tool: charge}\n"
        "  - {id: b, tool: report, params: {category: rate_limited}}\nedges:\n  - {from: a, to: b}\n"
    )
    async with spindle.open(home, tools=[charge]) as app:
        with pytest.raises(RateLimitedError) as caught:
            await app.call("pay")
        attempts = {record.tool: record.attempts for record in await app.history(limit=9)}
    assert calls == ["charge"]
    assert attempts["pay"] == 1
    assert not caught.value.retryable


# --- everybody who learns of it


def test_the_shell_says_which_kind_of_error_it_was(home: Path, rest: RestWorkspace) -> None:
    rest.root = home
    found = {}
    for category in CATEGORIES:
        done = rest.spindle("call", "report", f"category={category}", "--json")
        told = json.loads(done.stdout)
        assert (told["is_error"], told["category"]) == (True, category)
        found[category] = done.returncode
    assert found == {
        "auth": 5, "client": 10, "connection": 7, "not_found": 3, "permission": 5, "rate_limited": 8,
        "server": 9, "timeout": 6,
    }  # fmt: skip
    listed = rest.json("history", "--outcome", "rate_limited", "--json")
    assert [record["tool"] for record in listed] == ["report"]
    assert listed[0]["error"]["retry_after"] == 0.5


def test_rest_answers_with_the_status_of_the_category(home: Path, rest: RestWorkspace) -> None:
    rest.root = home
    with rest.serve() as served:
        limited = served.call("report", category="rate_limited")
        gone = served.call("report", category="not_found")
        stream = served.call("report", category="timeout", accept="text/event-stream")
    body = limited.json()
    assert (limited.status_code, body["category"], body["retryable"]) == (429, "rate_limited", False)
    assert limited.headers["retry-after"] == "1"
    assert body["details"]["category"] == "rate_limited"
    assert (gone.status_code, gone.json()["category"]) == (404, "not_found")
    assert stream.status_code == 504 or '"category":"timeout"' in stream.text


async def test_a_workspace_behind_a_workspace_passes_the_category_on(
    home: Path, open_sources: OpenSources, rest: RestWorkspace
) -> None:
    command = [warm.SPINDLE, "-w", str(home), "serve", "--stdio"]
    source: dict[str, Any] = {"command": command, "env": {"SPINDLE_TRUST": "1"}}
    async with open_sources({"far": source}) as app:
        found = [(await app.call("far.report", category=category)).category for category in CATEGORIES]
        limited = await app.call("far.report", category="rate_limited")
        missing = await app.call("far.missing")
    assert found == CATEGORIES
    assert limited.meaning is not None
    assert (limited.meaning.retry_after, limited.meaning.retryable) == (0.5, False)
    assert missing.category == "not_found"


async def test_an_error_of_a_source_behind_a_workspace_is_passed_on(
    open_sources: OpenSources, stdio_server: StdioServers, tmp_path: Path
) -> None:
    line = json.dumps({"jsonrpc": "2.0", "id": "$ID", "error": {"code": -32000, "message": "slow down",
                       "data": {"status": 429}}}).replace('"$ID"', "$ID")  # fmt: skip

    @tool
    async def far(context: Context) -> str:
        return (await context.call("s.raw", {"line": line})).text

    async with open_sources({"s": stdio_server()}, tools=[far]) as app:
        result = await app.call("far")
        with pytest.raises(SpindleError) as caught:
            await app.call("s.raw", {"line": line}, CallOptions())
    assert (result.category, result.text) == ("rate_limited", "'s': slow down")
    assert (caught.value.category, caught.value.status) == ("rate_limited", 429)
    assert caught.value.answered
    assert caught.value.retryable  # it was refused, not done
