"""Agents in a fresh workspace whose sources list their tools only to users who gave their consent."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

import spindle
from servers.agent_processes import MODEL, started
from servers.oauth import agree
from spindle import Agent, AgentResult, Finished, Paused, Principal
from spindle.domain.identity import LOCAL
from spindle.errors import AuthError
from spindle.testing import ModelServer, ToolCall, Turn

ANN, BEN = Principal("ann"), Principal("ben")


@pytest.fixture(autouse=True)
def in_reach(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)


def fresh(root: Path, url: str, *names: str, store: str = "") -> Path:
    """A workspace in which nobody has logged in to anything."""
    lines = [store, "[auth]", 'redirect_uri = "http://127.0.0.1/callback"']
    for name in names or ("work",):
        lines += [f"[sources.{name}]", f'url = "{url}"', "trust_hints = true"]
        lines += [f'auth = {{ type = "oauth", provider = "{name.title()}" }}']
    (root / "spindle.toml").write_text("\n".join(lines) + "\n")
    return root


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> str:
    return f'store = "{request.getfixturevalue("postgres_url")}"\n' if request.param == "postgres" else ""


async def test_it_pauses_once_and_goes_on_in_the_process_where_the_consent_is_completed(
    tmp_path: Path, store: str, server: ModelServer, guarded_url: str
) -> None:
    root = fresh(tmp_path, guarded_url, store=store)
    server.feed(Turn(calls=[ToolCall("work_whoami", {})]), "now I know")
    async with started(root, "run", "who am I?") as process:
        (pause,) = await process.says("paused")
        await process.kill()
    assert (pause["kind"], pause["source"], pause["details"]["provider"]) == ("consent", "work", "Work")
    assert server.requests == [], "the model is asked when there are tools to show"
    async with spindle.open(root) as app:
        await agree(app, pause["details"]["url"], LOCAL)
    async with spindle.open(root) as another:
        (outcome,) = await another.runner.resume_consent("work", LOCAL)
        assert isinstance(outcome, Finished)
        assert await another.pauses() == []
        record = await Agent(another, MODEL).record(pause["run_id"])
    assert "now I know" in outcome.result.text
    assert "work_whoami" in server.requests[0].tool_names
    assert '"subject": "local"' in server.requests[1].tool_answers[0].text
    assert record.run.status == "done"


async def test_a_pattern_asks_for_its_source_also_after_a_sync_that_failed(
    tmp_path: Path, server: ModelServer, guarded_url: str
) -> None:
    server.feed(Turn(calls=[ToolCall("work_whoami", {})]), "done")
    async with spindle.open(fresh(tmp_path, guarded_url, "work", "other")) as app:
        await app.sync()
        agent = Agent(app, MODEL, tools=["work.*"])
        paused = await agent.run("who am I?", principal=ANN)
        assert isinstance(paused, Paused)
        assert [pause.source for pause in paused.pauses] == ["work"]
        await agree(app, paused.pauses[0].details["url"], ANN)
        done = await agent.resume(paused.pauses[0].token)
    assert isinstance(done, AgentResult)
    assert '"subject": "ann"' in server.requests[1].tool_answers[0].text


async def test_several_sources_ask_at_once_and_one_that_is_refused_is_left_out(
    tmp_path: Path, server: ModelServer, guarded_url: str
) -> None:
    server.feed(Turn(calls=[ToolCall("work_whoami", {})]), "done")
    async with spindle.open(fresh(tmp_path, guarded_url, "work", "other")) as app:
        agent = Agent(app, MODEL)
        paused = await agent.run("who am I?", principal=ANN)
        assert isinstance(paused, Paused)
        asked = {pause.source: pause for pause in paused.pauses}
        assert sorted(map(str, asked)) == ["other", "work"]
        await agree(app, asked["work"].details["url"], ANN)
        again = await agent.resume(asked["work"].token)
        assert isinstance(again, Paused)
        assert [pause.token for pause in again.pauses] == [asked["other"].token]
        done = await agent.resume(asked["other"].token, refused="not that one")
    assert isinstance(done, AgentResult)
    assert done.output == "done"
    shown = server.requests[0].tool_names
    assert "work_whoami" in shown
    assert not [name for name in shown if name.startswith("other")]


async def test_an_agent_that_may_use_nothing_else_says_that_the_consent_was_refused(
    tmp_path: Path, guarded_url: str
) -> None:
    async with spindle.open(fresh(tmp_path, guarded_url)) as app:
        agent = Agent(app, MODEL, tools=["work.whoami"])
        paused = await agent.run("who am I?", principal=ANN)
        assert isinstance(paused, Paused)
        with pytest.raises(AuthError, match="consent was not given: no thanks"):
            await agent.resume(paused.pauses[0].token, refused="no thanks")


async def test_one_users_consent_resumes_nobody_elses_run(
    tmp_path: Path, server: ModelServer, guarded_url: str
) -> None:
    server.feed(Turn(calls=[ToolCall("work_whoami", {})]), "done for ann")
    async with spindle.open(fresh(tmp_path, guarded_url)) as app:
        agent = Agent(app, MODEL)
        paused = [await agent.run("who am I?", principal=who) for who in (ANN, BEN)]
        links = [outcome.pauses[0].details["url"] for outcome in paused if isinstance(outcome, Paused)]
        assert len(set(links)) == 2
        await agree(app, links[0], ANN)
        (outcome,) = await app.runner.resume_consent("work", ANN)
        assert isinstance(outcome, Finished)
        assert "done for ann" in outcome.result.text
        (waiting,) = await app.pauses()
        assert (waiting.principal, waiting.kind) == (BEN, "consent")
        server.feed(Turn(calls=[ToolCall("work_whoami", {})]), "done for ben")
        await agree(app, links[1], BEN)
        done = await agent.resume(waiting.token)
    assert isinstance(done, AgentResult)
    assert done.output == "done for ben"
    subjects = [
        json.loads(answer.text)["subject"] for request in server.requests for answer in request.tool_answers
    ]
    assert subjects == ["ann", "ben"]


async def test_a_source_that_lists_openly_stops_the_agent_only_at_its_call(
    tmp_path: Path, server: ModelServer, open_lists_url: str
) -> None:
    server.feed(Turn(calls=[ToolCall("work_whoami", {})]), "done")
    async with spindle.open(fresh(tmp_path, open_lists_url)) as app:
        agent = Agent(app, MODEL)
        paused = await agent.run("who am I?", principal=ANN)
        assert isinstance(paused, Paused)
        assert len(server.requests) == 1
        await agree(app, paused.pauses[0].details["url"], ANN)
        done = await agent.resume(paused.pauses[0].token)
    assert isinstance(done, AgentResult)


async def test_agents_of_one_user_that_start_together_share_one_link(
    tmp_path: Path, guarded_url: str
) -> None:
    async with spindle.open(fresh(tmp_path, guarded_url)) as app:
        agent = Agent(app, MODEL)
        outcomes = await asyncio.gather(*(agent.run(f"task {n}", principal=ANN) for n in range(5)))
        links = {outcome.pauses[0].details["url"] for outcome in outcomes if isinstance(outcome, Paused)}
    assert len(links) == 1
