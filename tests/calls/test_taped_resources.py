"""Resources and prompts of real servers, recorded on a tape and played when the servers are gone."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import spindle
from mcp_server.conftest import fixture_source
from servers.running import REPOSITORY
from servers.serving import served
from spindle import Agent
from spindle.agents.outcomes import AgentResult
from spindle.app import Spindle
from spindle.calls.tape import Tape
from spindle.cli.main import execute
from spindle.errors import ClientError, NotFoundError, SpindleError
from spindle.settings import Settings
from spindle.testing import ModelServer, ToolCall, Turn

ERAS = pytest.mark.parametrize("era", ["handshake", "2026-07-28"])
BARE = [sys.executable, "-I", "-S", str(REPOSITORY / "tests" / "servers" / "changing_server.py"), "none"]
"""A server that has resources, and neither tools nor prompts."""
GONE = {"command": ["/nowhere/to/be/found"]}


def settings(root: Path, **sources: Any) -> Settings:
    return Settings(root, {"sources": sources, "store": ":memory:"})


async def use(app: Spindle) -> list[Any]:
    found: list[Any] = [sorted(item.uri for item in await app.resources())]
    found += [(await app.read(uri)).text for uri in ("test://static-text", "made://note")]
    found.append(
        [block.to_dict() for block in (await app.read("test://static-binary", source="fix")).content]
    )
    found.append([(prompt.name, prompt.description) for prompt in await app.prompts()])
    given = {"arg1": "a", "arg2": "b"}
    for name, arguments in (("test_simple_prompt", {}), ("fix.test_prompt_with_arguments", given)):
        found.append([message.content.text for message in (await app.prompt(name, arguments)).messages])
    with pytest.raises(NotFoundError) as missing:
        await app.read("test://none", source="fix")
    return [*found, missing.value.message]


@ERAS
async def test_resources_and_prompts_are_played_when_their_servers_are_gone(tmp_path: Path, era: str) -> None:
    tape = tmp_path / "read.jsonl"
    live = {"fix": fixture_source(prefix=True, protocol=era), "bare": {"command": BARE}}
    async with spindle.open(settings=settings(tmp_path, **live), record=tape) as app:
        recorded = await use(app)
    assert recorded[1].startswith("This is the content")
    assert recorded[2] == "a note\n"
    gone = settings(tmp_path, fix={**GONE, "prefix": True}, bare=GONE)
    async with spindle.open(settings=gone, replay=tape) as app:
        assert await use(app) == recorded
        assert Tape.read(tape).sources == {"fix": "mcp", "bare": "mcp"}
        with pytest.raises(NotFoundError, match=r'uri was "test://[a-z-]+", and is "test://other" now'):
            await app.read("test://other", source="fix")
        with pytest.raises(ClientError, match="does not tell when its resources change"):
            async with app.watch("test://static-text", source="fix"):
                pass


async def test_an_agent_that_is_given_resources_and_prompts_is_played_when_server_and_model_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tape = tmp_path / "agent.jsonl"

    async def work(app: Spindle) -> tuple[Any, list[str]]:
        """What it is to do is a prompt, what it knows is a resource, and it names another one to be read."""
        filled = await app.prompt("fix.test_simple_prompt")
        known = await app.read("test://static-text", source="fix")
        task = f"{filled.messages[0].content.text}\n{known.text}"
        done = await Agent(app, model="openai-chat:any", tools=["fix.*"], taint="off", approve=[]).run(task)
        assert isinstance(done, AgentResult)
        return done, [task, (await app.read(str(done.output), source="fix")).text]

    live = settings(tmp_path, fix=fixture_source(prefix=True, protocol="handshake"))
    script = [Turn(calls=[ToolCall("fix_test_custom_headers", {"query": "x"})]), "test://template/7/data"]
    with ModelServer(*script) as model, monkeypatch.context() as reached:
        for name, value in model.environment().items():
            reached.setenv(name, value)
        async with spindle.open(settings=live, record=tape) as app:
            recorded, read = await work(app)
    assert "static text resource" in read[0]
    assert '"id":"7"' in read[1]
    async with spindle.open(settings=settings(tmp_path, fix={**GONE, "prefix": True}), replay=tape) as app:
        played, again = await work(app)
        assert app.tape is not None
        assert app.tape.missed == []
    assert again == read
    assert [call["tool"] for call in played.calls] == ["fix.test_custom_headers"]
    assert (played.output, played.calls[0]["outcome"]) == (recorded.output, "ok")


async def test_secrets_of_a_server_are_not_on_the_tape(tmp_path: Path) -> None:
    """A server over HTTP that is asked for an address which has its token in it."""
    there, here = tmp_path / "there", tmp_path / "here"
    for folder in (there, here):
        folder.mkdir()
    key, tape = "s3cret-of-reading", tmp_path / "read.jsonl"
    async with (
        spindle.open(settings=settings(there, fix=fixture_source(prefix=True))) as upstream,
        served(upstream, tokens={"me": {"token": key}}) as url,
    ):
        far = {"url": url, "auth": {"type": "bearer", "token": "${TAPED_READER}"}}
        environ = {"TAPED_READER": key, "SPINDLE_HOME": str(tmp_path)}
        async with spindle.open(settings=settings(here, far=far), environ=environ, record=tape) as app:
            recorded = (await app.read("test://static-text", source="far")).text
            with pytest.raises(SpindleError):
                await app.read(f"test://{key}", source="far")
    assert key not in tape.read_text()
    async with spindle.open(settings=settings(here, far={"url": url}), replay=tape) as app:
        assert (await app.read("test://static-text", source="far")).text == recorded
        with pytest.raises(SpindleError):
            await app.read("test://any-text-stands-there", source="far")


def test_the_shell_records_and_plays_lists_resources_and_prompts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPINDLE_TRUST", "1")
    table = fixture_source(prefix=True)
    lines = [f"{key} = {json.dumps(value)}" for key, value in table.items()]
    (tmp_path / "spindle.toml").write_text("\n".join(["[sources.fix]", *lines, ""]))

    def said(*words: str, code: int = 0) -> str:
        assert execute(words) == code, capsys.readouterr()
        return capsys.readouterr().out

    picture = ("read", "test://static-binary", "--source", "fix", "--output", "picture.png")
    commands = [
        ("resources",),
        ("resources", "fix", "--json"),
        ("read", "test://static-text"),
        ("read", "test://static-text", "--source", "fix", "--json"),
        picture,
        ("prompts",),
        ("prompt", "fix.test_prompt_with_arguments", "--arg", "arg1=a", "--arg", "arg2=b"),
    ]
    recorded = [said(*words, "--record", f"{number}.jsonl") for number, words in enumerate(commands)]
    assert "This is the content of the static text resource." in recorded[2]
    assert "arg1='a', arg2='b'" in recorded[-1]
    kept = (tmp_path / "picture.png").read_bytes()
    (tmp_path / "picture.png").unlink()
    (tmp_path / "spindle.toml").unlink()
    for mode in ("--replay", "--record-once"):
        if mode == "--record-once":  # which may have to record, and needs a workspace
            (tmp_path / "spindle.toml").write_text('[sources.fix]\ncommand = ["/nowhere/to/be/found"]\n')
        played = [said(*words, mode, f"{number}.jsonl") for number, words in enumerate(commands)]
        assert played == recorded
        assert (tmp_path / "picture.png").read_bytes() == kept
    assert execute(["read", "test://static-binary", "--source", "fix", "--replay", "2.jsonl"]) != 0
    assert 'uri was "test://static-text", and is "test://static-binary" now' in capsys.readouterr().err
    said("read", "test://static-text", "--record", "a", "--replay", "b", code=2)


def test_the_shell_shows_what_was_read_and_what_differs_now(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPINDLE_TRUST", "1")
    (tmp_path / "spindle.toml").write_text(f"[sources.bare]\ncommand = {json.dumps(BARE)}\n")
    lines = [
        {"tape": 1},
        {"call": 1, "request": "bare.resources/read", "source": "bare", "kind": "mcp",
         "arguments": {"uri": "made://note"}, "ms": 1,
         "result": {"contents": [{"uri": "made://note", "text": "a note\n"}]}},
        {"call": 2, "request": "bare.resources/read", "source": "bare", "kind": "mcp",
         "arguments": {"uri": "made://hostile"}, "ms": 1, "result": {"contents": []}},
        {"end": {"calls": 2, "tools": 0}},
    ]  # fmt: skip
    (tmp_path / "read.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert execute(["replay", "read.jsonl", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [call["request"] for call in shown["calls"]] == ["bare.resources/read"] * 2
    assert execute(["replay", "read.jsonl", "--verify", "--json"]) == 1
    compared = json.loads(capsys.readouterr().out)
    assert [call["outcome"] for call in compared["calls"]] == ["same", "differs"]
