"""Calls recorded on a tape and played from it: five kinds of source, a flow and an agent, with all servers
gone."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

import spindle
from servers.echo_server import Answer, EchoServer
from servers.running import StdioServers
from spindle import Agent, Finished
from spindle.agents.outcomes import AgentResult
from spindle.app import Spindle
from spindle.calls.tape import Tape, TapedTool
from spindle.calls.tape_writer import TapeWriter
from spindle.cli.main import execute
from spindle.domain.call import Result
from spindle.domain.tool import ToolSpec
from spindle.errors import ConfigurationError, NotFoundError, RateLimitedError
from spindle.settings import Settings
from spindle.testing import ModelServer, ToolCall, Turn, workspace

FLOW = """
version: 1
name: report
inputs: {word: {type: string}}
nodes:
- {id: shouted, tool: shout, params: {text: "${word}"}}
- {id: counted, tool: words.count, params: {text: "${shouted}"}}
- {id: added, tool: sums.add, params: {a: "${counted}", b: 1}}
edges:
- {from: shouted, to: counted}
- {from: counted, to: added}
outputs: {sum: "${added}"}
"""


def shout(text: str) -> str:
    """Returns the text in capitals."""
    return text.upper()


async def add(connection: ServerConnection) -> None:
    async for message in connection:
        asked = json.loads(message)
        await connection.send(json.dumps({"id": asked["id"], "result": sum(asked["params"])}))


class Servers:
    """A workspace with five kinds of source, and its servers while they are there."""

    def __init__(self, folder: Path, stdio: StdioServers) -> None:
        self.folder = folder
        self.tape = folder / "tapes" / "all.jsonl"
        self.stdio = stdio
        self.echo = EchoServer()
        self.sources: dict[str, dict[str, Any]] = {}

    @asynccontextmanager
    async def live(self) -> AsyncIterator[None]:
        self.echo.answers["/hello"] = Answer(b'{"hello": "you", "token": "s3cret-of-web"}')
        self.echo.answers["/busy"] = Answer(b'{"message": "later"}', 429, {"retry-after": "60"})
        http = await asyncio.start_server(self.echo.serve, "127.0.0.1", 0)
        async with http, serve(add, "127.0.0.1", 0) as sums:
            base = f"http://127.0.0.1:{http.sockets[0].getsockname()[1]}"
            ok = {"responses": {"200": {"description": "ok"}}}
            document = {
                "openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "servers": [{"url": base}],
                "paths": {path: {"get": {"operationId": path[1:], **ok}} for path in ("/hello", "/busy")},
            }  # fmt: skip
            (self.folder / "api.json").write_text(json.dumps(document))
            port = next(iter(sums.sockets)).getsockname()[1]
            self.sources = {
                "web": {
                    "kind": "openapi", "document": str(self.folder / "api.json"), "server": base,
                    "retry": {"attempts": 1},
                    "auth": {"type": "bearer", "token": "${TAPED_TOKEN}"},
                },
                "words": {
                    "kind": "cli", "program": ["python3", "-c", "import sys; print(len(sys.argv[-1]))"],
                    "commands": {
                        "count": {"output": "json", "parameters": {"text": "string"}},
                    },
                },
                "sums": {
                    "kind": "websocket", "url": f"ws://127.0.0.1:{port}", "id_field": "id",
                    "requests": {
                        "add": {
                            "message": {"params": ["{a}", "{b}"]}, "reply": "result",
                            "parameters": {"a": "number", "b": "number"},
                        }
                    },
                },
                "s": self.stdio(),
            }  # fmt: skip
            yield

    def open(self, **options: Any) -> Any:
        environ = {**os.environ, "TAPED_TOKEN": "s3cret-of-web"} if "record" in options else None
        given = {"environ": environ} if environ else {}
        return workspace([shout], sources=self.sources, files={"flows/report.yaml": FLOW}, **options, **given)


@pytest.fixture
def servers(tmp_path: Path, stdio_server: StdioServers) -> Servers:
    return Servers(tmp_path, stdio_server)


async def use(app: Spindle, *, backwards: bool = False) -> list[Any]:
    """Calls every source, several at once, in one order or the other."""
    calls: list[tuple[str, dict[str, Any]]] = [
        ("web.hello", {}), ("words.count", {"text": "abc"}), ("sums.add", {"a": 2, "b": 3}),
        ("s.echo", {"text": "one"}), ("s.echo", {"text": "two"}), ("shout", {"text": "hi"}),
    ]  # fmt: skip
    order = range(len(calls))
    chosen = reversed(order) if backwards else order
    async with asyncio.TaskGroup() as together:
        made = {number: together.create_task(app.call(*calls[number])) for number in chosen}
    results = [made[number].result().value for number in order]
    outcome = await app.run_flow("report", word="four")
    assert isinstance(outcome, Finished)
    return [*results, outcome.result.value]


async def test_five_kinds_and_a_flow_are_played_in_any_order_when_all_servers_are_gone(
    servers: Servers,
) -> None:
    async with servers.live(), servers.open(record=servers.tape) as app:
        live = await use(app)
        with pytest.raises(RateLimitedError):
            await app.call("web.busy")
    asked = len(servers.echo.requests), servers.stdio.starts()
    text = servers.tape.read_text()
    assert "s3cret-of-web" not in text
    assert servers.tape.stat().st_mode & 0o077 == 0
    async with servers.open(replay=servers.tape) as app:
        assert {tool.name for tool in await app.tools()} > {"web.hello", "shout", "s.echo", "report"}
        played = await use(app, backwards=True)
        with pytest.raises(RateLimitedError) as raised:
            await app.call("web.busy")
        assert raised.value.retry_after == 60
    assert played[0] == {"hello": "you", "token": "•••"}
    assert played[1:] == live[1:]
    assert live[-1] == {"sum": 5}
    assert (len(servers.echo.requests), servers.stdio.starts()) == asked


async def test_an_agent_is_played_without_its_model(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, task = "openai-chat:gpt-scripted", "What does it say?"
    async with ModelServer() as models, servers.live():
        for key, value in models.environment().items():
            monkeypatch.setenv(key, value)
        models.feed(Turn(calls=[ToolCall("shout", {"text": "seen"})]), "It said seen.")
        async with servers.open(record=servers.tape) as app:
            live = await Agent(app, model=name, tools=["shout"]).run(task)
        for key in models.environment():
            monkeypatch.delenv(key)
    async with servers.open(replay=servers.tape) as app:
        played = await Agent(app, model=name, tools=["shout"]).run(task)
        with pytest.raises(NotFoundError, match="What does she say"):
            await Agent(app, model=name, tools=["shout"]).run("What does she say?")
    assert isinstance(live, AgentResult)
    assert isinstance(played, AgentResult)
    assert (played.output, len(played.calls)) == (live.output, 1) == ("It said seen.", 1)


async def test_what_is_not_on_the_tape_is_told_with_the_nearest_call(tmp_path: Path) -> None:
    tape = tmp_path / "t.jsonl"
    async with workspace([shout], record=tape) as app:
        await app.call("shout", text="one")
        await app.call("shout", text="another")
    async with workspace([shout], replay=tape) as app:
        await app.call("shout", text="one")
        with pytest.raises(NotFoundError, match="was called like this once when"):
            await app.call("shout", text="one")
        with pytest.raises(NotFoundError, match='call 1, where text was "one", and is "two" now'):
            await app.call("shout", text="two")
        assert len(app.tape.missed) == 2


async def test_a_tool_that_has_changed_is_told_with_its_first_call(tmp_path: Path) -> None:
    def greet(name: str) -> str:
        """Greets."""
        return f"hello {name}"

    tape, told = tmp_path / "t.jsonl", []
    async with workspace([greet, shout], record=tape) as app:
        await app.call("shout", text="one")
        await app.call("greet", name="you")

    def changed(name: str, loud: bool = False) -> str:
        """Greets."""
        return f"hello {name}"

    changed.__name__ = "greet"
    async with workspace([changed, shout], replay=tape, note=told.append) as app:
        assert (await app.call("greet", name="you")).text == "hello you"
        with pytest.raises(NotFoundError) as caught:
            await app.call("greet", name="them")
    [change] = told
    assert change.startswith("greet has changed since t.jsonl was recorded: input_schema.properties.loud was")
    assert "call 2" in change
    assert "has changed since" in (caught.value.hint or "")


async def test_a_tool_that_has_changed_at_the_last_sync_is_told(tmp_path: Path) -> None:
    code = 'from spindle import tool\n\n\n@tool\ndef read() -> str:\n    """Reads."""\n    return "seen"\n'
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "notes.py").write_text(code)
    (tmp_path / "spindle.toml").touch()
    told: list[str] = []
    async with spindle.open(tmp_path, record=tmp_path / "t.jsonl") as app:
        assert (await app.call("read")).text == "seen"
    async with spindle.open(tmp_path, replay=tmp_path / "t.jsonl", note=told.append) as app:
        await app.call("read")
    assert told == []
    (tmp_path / "tools" / "notes.py").write_text(code.replace("Reads.", "Reads it."))
    async with spindle.open(tmp_path) as app:
        await app.sync()
    async with spindle.open(tmp_path, replay=tmp_path / "t.jsonl", note=told.append) as app:
        await app.call("read")
    [change] = told
    assert 'description was "Reads.", and is "Reads it." now' in change


def test_what_is_not_on_the_tape_is_known_of_blocking_code_too(tmp_path: Path) -> None:
    tape = tmp_path / "t.jsonl"
    with spindle.open(tmp_path, tools=[shout], record=tape) as app:
        app.call("shout", text="one")
    opening = spindle.open(tmp_path, replay=tape)
    with opening as app, pytest.raises(NotFoundError):
        app.call("shout", text="two")
    assert len(opening.missed) == 1


async def test_secrets_are_not_recorded_and_stand_for_any_text(tmp_path: Path) -> None:
    def login(user: str, password: str) -> str:
        return f"{user} with {password}"

    tape = tmp_path / "t.jsonl"
    async with workspace([login], record=tape) as app:
        await app.call("login", user="ann", password="hunter2-hunter2")
    assert "hunter2" not in tape.read_text()
    async with workspace([login], replay=tape) as app:
        assert (await app.call("login", user="ann", password="another")).text == "ann with •••"


async def test_once_records_and_then_plays(tmp_path: Path) -> None:
    made: list[str] = []

    def note(text: str) -> int:
        made.append(text)
        return len(made)

    tape = tmp_path / "t.jsonl"
    for _ in range(3):
        async with workspace([note], once=tape) as app:
            assert (await app.call("note", text="x")).value == 1
    assert made == ["x"]


async def test_a_tape_that_is_not_finished_takes_no_others_place(tmp_path: Path) -> None:
    tape = tmp_path / "t.jsonl"
    tape.write_text("before")
    async with workspace([shout], record=tape) as app:
        await app.call("shout", text="x")
        assert tape.read_text() == "before"
    assert len(Tape.read(tape).takes) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["t.jsonl"]


async def test_playing_leaves_the_workspace_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "spindle.toml").touch()
    tape = tmp_path / "t.jsonl"
    async with spindle.open(tmp_path, tools=[shout], record=tape) as app:
        await app.call("shout", text="x")
    async with spindle.open(tmp_path, replay=tape) as app:
        assert (await app.call("shout", text="x")).text == "X"
    async with spindle.open(tmp_path) as app:
        assert [tool.name for tool in await app.tools()] == []
        assert len(await app.history()) == 1


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "is empty"),
        ("nonsense", r"t.jsonl:1: this is no line of a tape"),
        ('{"tape": 2}', r't.jsonl:1: .*the first line must be \{"tape":1\}'),
        ('{"tape": 1}\n[]', r"t.jsonl:2: .*no JSON object"),
        ('{"tape": 1}\n{"call": 1, "tool": "x"}', r"t.jsonl:2: .*'arguments' is missing"),
        ('{"tape": 1}\n{"call": 1, "tool": "x", "arguments": {}, "result": 3}', "'result' is no JSON object"),
    ],
)
def test_a_file_that_is_no_tape_is_refused_with_the_line(tmp_path: Path, text: str, wrong: str) -> None:
    tape = tmp_path / "t.jsonl"
    tape.write_text(text)
    with pytest.raises(ConfigurationError, match=wrong):
        Tape.read(tape)


def test_missing_and_mixed_tapes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        Tape.read(tmp_path / "none.jsonl")
    with pytest.raises(ConfigurationError, match="either recorded, played or recorded once"):
        spindle.open(tmp_path, record="a", replay="b")


@pytest.mark.parametrize("mode", ["record", "replay", "once"])
def test_a_pipe_is_neither_replaced_nor_waited_for(tmp_path: Path, mode: str) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ConfigurationError, match="is no file"):
        spindle.open(tmp_path, **{mode: pipe})  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="is no file"):
        Tape.read(pipe)
    assert pipe.is_fifo()


def test_the_shell_records_plays_shows_and_verifies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "spindle.toml").touch()
    (tmp_path / "tools").mkdir()
    code = '''
from pathlib import Path

from spindle import tool

@tool(read_only=True)
def read() -> str:
    """Reads the note."""
    return Path("note.txt").read_text()
'''
    (tmp_path / "tools" / "notes.py").write_text(code)
    note = tmp_path / "note.txt"
    note.write_text("first")
    monkeypatch.chdir(tmp_path)

    def said(*words: str, code: int = 0) -> str:
        assert execute(["-w", str(tmp_path), *words]) == code, capsys.readouterr()
        return capsys.readouterr().out

    assert said("call", "--record", "t.jsonl", "read") == "first\n"
    note.write_text("second")
    assert said("call", "--replay", "t.jsonl", "read") == "first\n"
    assert said("call", "--record-once", "t.jsonl", "read") == "first\n"
    assert said("replay", "t.jsonl").split()[:3] == ["1", "read", "ok"]
    told = json.loads(said("replay", "t.jsonl", "--verify", "--json", code=1))
    assert told["calls"][0]["why"] == 'the whole was "first", and is "second" now'
    note.write_text("first")
    assert said("replay", "t.jsonl", "--verify").split()[0] == "same"
    (tmp_path / "tools" / "notes.py").write_text(code.replace("Reads the note.", "Reads it."))
    assert "the tool is another: description was" in said("replay", "t.jsonl", "--verify", code=1)
    said("call", "--record", "a", "--replay", "b", "read", code=2)
    said("run", "--record", "a", "--detach", "read", code=2)
    assert not (tmp_path / "a").exists()


async def test_a_tape_is_played_under_the_same_names_without_its_workspace(
    tmp_path: Path, stdio_server: StdioServers
) -> None:
    tape = tmp_path / "t.jsonl"
    async with workspace([shout], sources={"s": stdio_server()}, record=tape) as app:
        live = [(await app.call(name, text="hi")).text for name in ("s.echo", "shout")]
    async with spindle.open(settings=Settings(tmp_path, {}), replay=tape) as app:
        assert [(await app.call(name, text="hi")).text for name in ("s.echo", "shout")] == live


def test_a_tool_that_is_gone_is_told_with_the_nearest(tmp_path: Path) -> None:
    writer = TapeWriter(tmp_path / "t.jsonl")
    writer.add("web.hello", {}, 0.1, result=Result.of_text("hello").to_dict())
    spec = ToolSpec("hello", "Says it.", {"type": "object"})
    writer.close([TapedTool("web.hello", "web", "mcp", spec.whole_definition(), "f")])
    tape = Tape.read(tmp_path / "t.jsonl")
    with pytest.raises(NotFoundError, match=r"no call of web.hallo is in .*; the nearest"):
        tape.answer("web.hallo", {})
    assert [take.tool for take in tape.unused] == ["web.hello"]
    assert socket.gethostname() not in (tmp_path / "t.jsonl").read_text()


def test_the_fixture_records_once_and_fails_for_what_is_not_on_the_tape(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)
    pytester.makeconftest('pytest_plugins = ["spindle.testing.tapes"]')
    test = """
        import asyncio
        from pathlib import Path

        def note(text: str) -> str:
            with Path("made").open("a") as file:
                file.write("x")
            return text

        def test_it(taped):
            async def use():
                async with taped(tools=[note]) as app:
                    return (await app.call("note", text="WORD")).text
            try:
                assert asyncio.run(use()) == "WORD"
            except LookupError:
                pass
    """
    pytester.makepyfile(test_own=test.replace("WORD", "one"))
    for more in ((), (), ("--record-tapes",)):
        pytester.runpytest_subprocess("-p", "no:cacheprovider", *more).assert_outcomes(passed=1)
    assert (pytester.path / "made").read_text() == "xx"
    assert (pytester.path / "tapes" / "test_own" / "test_it.jsonl").is_file()
    went_on = test.replace("WORD", "two").replace("LookupError", "Exception")
    pytester.makepyfile(test_own=went_on)
    told = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    told.assert_outcomes(passed=1, errors=1)
    told.stdout.fnmatch_lines(['*text was "one", and is "two" now*'])
