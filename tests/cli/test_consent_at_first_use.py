"""Commands in a fresh workspace whose source lists its tools only to users who gave their consent."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

import spindle as library
from cli.test_auth_commands import LINK, add_guarded, visit
from cli.test_terminal import Terminal, plain
from servers.oauth import User, agree
from spindle.domain.identity import LOCAL
from spindle.testing import ModelServer, ToolCall, Turn

if TYPE_CHECKING:
    from servers.shell import Run, Workspace

TOKEN = re.compile(r"spindle resume ([0-9a-f]+)")


@pytest.fixture
def fresh(workspace: Workspace, guarded_url: str) -> Workspace:
    add_guarded(workspace, guarded_url, provider="Work")
    workspace.write("flows/who.json", json.dumps(SAVED))
    return workspace


async def log_in(terminal: Terminal, ann: User) -> None:
    """What a person at the terminal does: say yes, and follow the link."""
    await asyncio.to_thread(terminal.read_until, "log in to work now? [Y/n] ")
    seen = len(terminal.seen)
    terminal.write("\n")
    await asyncio.to_thread(terminal.read_until, "%2Fcallback")
    await asyncio.to_thread(terminal.read_until, "waiting for you to come back")
    link = LINK.search(plain(terminal.seen[seen:]).replace("\r\n", "\n"))
    assert link is not None, terminal.seen
    page = await visit(await ann.redirected(link[0]))
    assert page.status_code == 200


async def test_sync_at_a_terminal_offers_to_log_in_and_syncs(fresh: Workspace, ann: User) -> None:
    terminal = Terminal("sync")
    await log_in(terminal, ann)
    seen = plain(await asyncio.to_thread(terminal.read_all))
    assert "work needs your consent at Work" in seen
    assert "work: 2 tools, 2 added" in seen
    assert terminal.process.returncode == 0


async def test_who_declines_is_told_the_command(fresh: Workspace) -> None:
    terminal = Terminal("sync")
    await asyncio.to_thread(terminal.read_until, "log in to work now? [Y/n] ")
    terminal.write("n\n")
    seen = await asyncio.to_thread(terminal.read_all)
    assert "run `spindle auth login work`" in seen
    assert terminal.process.returncode == 75


@pytest.mark.parametrize("words", [("call", "work.whoami", "--by=me"), ("run", "work.whoami", "--by=me")])
async def test_a_call_at_a_terminal_offers_to_log_in_and_goes_on(
    fresh: Workspace, ann: User, words: tuple[str, ...]
) -> None:
    terminal = Terminal(*words)
    await log_in(terminal, ann)
    seen = await asyncio.to_thread(terminal.read_all)
    assert terminal.process.returncode == 0, seen
    assert '"subject": "ann"' in seen
    assert '"by": "me"' in seen


CALLS = {
    "flags": (("call", "work.whoami", "--by=me"), None),
    "json": (("call", "work.whoami", '{"by": "me"}', "--timeout", "20"), None),
    "stdin": (("call", "work.whoami", "-"), '{"by": "me"}'),
    "a line of tools": (("run", "work.whoami --by=me"), None),
    "a tool as a flow": (("run", "work.whoami", "--by=me"), None),
    "a saved flow": (("run", "who", "--by=me"), None),
}
SAVED = {
    "name": "who",
    "inputs": {"by": {"type": "string"}},
    "nodes": [{"id": "ask", "tool": "work.whoami"}],
}


@pytest.mark.parametrize("which", CALLS)
async def test_a_call_without_a_terminal_pauses_and_is_resumed_with_what_was_typed(
    fresh: Workspace, program: Run, which: str
) -> None:
    words, stdin = CALLS[which]
    done = await asyncio.to_thread(program, *words, stdin=stdin)
    assert done.code == 75, done.err
    assert "to give it: spindle auth login work" in done.err
    token = TOKEN.search(done.err)
    assert token is not None, done.err
    async with library.open(fresh.root) as app:
        (pause,) = await app.pauses()
        assert pause.token == token[1]
        await agree(app, pause.details["url"], LOCAL)
    done = await asyncio.to_thread(program, "resume", token[1])
    assert done.code == 0, done.err
    said = json.loads(done.out)
    assert (said["subject"], said["by"]) == ("local", "me")


async def test_mistakes_in_what_was_typed_are_told_when_the_tool_is_known(
    fresh: Workspace, program: Run
) -> None:
    done = await asyncio.to_thread(program, "call", "work.whoami", "--bye=me")
    assert done.code == 75
    async with library.open(fresh.root) as app:
        (pause,) = await app.pauses()
        await agree(app, pause.details["url"], LOCAL)
    done = await asyncio.to_thread(program, "resume", pause.token)
    assert done.code == 4
    assert "did you mean --by?" in done.err


async def test_a_parameter_of_a_tool_that_is_not_known_yet_is_no_mistake(
    fresh: Workspace, program: Run
) -> None:
    workspace_flow = {**SAVED, "inputs": {}}
    fresh.write("flows/who.json", json.dumps(workspace_flow))
    done = await asyncio.to_thread(program, "run", "who", "--by=me")
    assert (done.code, "run `spindle auth login work`" in done.err) == (75, True)


@pytest.fixture
async def model(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ModelServer]:
    async with ModelServer(Turn(calls=[ToolCall("work_whoami", {})]), "Now I know.") as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        yield server


AGENT = ("agent", "-m", "openai-chat:any", "-y", "who am I?")


async def test_an_agent_pauses_and_is_resumed_with_the_tools(
    fresh: Workspace, program: Run, model: ModelServer
) -> None:
    done = await asyncio.to_thread(program, *AGENT)
    assert done.code == 75, done.err
    assert "to give it: spindle auth login work" in done.err
    assert model.requests == []
    async with library.open(fresh.root) as app:
        (pause,) = await app.pauses()
        await agree(app, pause.details["url"], LOCAL)
    done = await asyncio.to_thread(program, "resume", pause.token)
    assert done.code == 75, "the call itself waits for approval, as the server is not trusted"
    assert '"tool": "work.whoami"' in done.err or "tool: work.whoami" in done.err
    assert "work_whoami" in model.requests[0].tool_names


async def test_an_agent_at_a_terminal_offers_to_log_in_and_answers(
    fresh: Workspace, ann: User, model: ModelServer
) -> None:
    terminal = Terminal(*AGENT)
    await log_in(terminal, ann)
    seen = await asyncio.to_thread(terminal.read_all)
    assert terminal.process.returncode == 0, seen
    assert "Now I know." in seen
    assert '"subject": "ann"' in model.requests[1].tool_answers[0].text


async def test_help_of_a_tool_that_is_not_known_yet_says_what_to_run(fresh: Workspace, program: Run) -> None:
    done = await asyncio.to_thread(program, "call", "work.whoami", "--help")
    assert done.code == 75
    assert "run `spindle auth login work`" in done.err
    async with library.open(fresh.root) as app:
        assert await app.pauses() == []
