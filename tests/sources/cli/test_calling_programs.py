"""Real processes: what they are given, what becomes of their output, and that none is left."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servers.examples import examples
from servers.running import OpenSources, is_running, process_end, until
from spindle.calls.caller import CallOptions
from spindle.domain.call import Call
from spindle.domain.identity import Credential
from spindle.domain.tool import Tool, ToolSpec
from spindle.errors import (
    CallTimeoutError,
    ConfigurationError,
    ConnectionFailedError,
    InvalidArgumentsError,
    NotFoundError,
    ResultTooLargeError,
    ServerError,
    ToolError,
)
from spindle.sources.cli.config import CliConfig
from spindle.sources.cli.session import CliSession
from spindle.sources.programs import descendants, groups, process

SHOW = {"args": ["show"], "output": "json", "parameters": {"words": {"type": "array"}}}
FAST = {"retry": {"attempts": 1}}


def writes(text: str, output: str) -> dict[str, Any]:
    return {"args": ["write", text], "output": output}


async def test_a_described_command_is_a_tool_without_a_sync(open_sources: OpenSources, program: Any) -> None:
    described = {
        **SHOW, "description": "Shows words.", "read_only": True, "tags": ["demo"],
        "parameters": {"count": {"type": "integer", "minimum": 1, "required": True, "flag": "-n"}},
    }  # fmt: skip
    async with open_sources({"p": program({"show": described})}) as app:
        assert [summary.name for summary in await app.tools()] == ["p.show"]
        tool = await app.show("p.show")
        assert (tool.description, tool.kind, tool.spec.tags) == ("Shows words.", "cli", ("demo",))
        assert tool.hints.read_only
        assert tool.spec.place == "sources.p.commands.show"
        assert tool.input_schema["required"] == ["count"]
        result = await app.call("p.show", count=2)
        assert result.structured["argv"] == ["-n", "2"]
        with pytest.raises(InvalidArgumentsError, match="minimum"):
            await app.call("p.show", count=0)


async def test_a_program_runs_in_its_folder_with_its_own_and_the_base_environment(
    open_sources: OpenSources, program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "inner").mkdir()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "ours")
    monkeypatch.setenv("PROGRAM_TOKEN", "theirs")
    own = {"cwd": "inner", "env": {"TOKEN": "${PROGRAM_TOKEN}"}}
    async with open_sources({"p": program({"show": SHOW}, **own)}) as app:
        seen = (await app.call("p.show")).structured
    assert seen["cwd"] == str(tmp_path / "inner")
    assert seen["env"]["TOKEN"] == "theirs"
    assert seen["env"]["PATH"] == os.environ["PATH"]
    assert "AWS_SECRET_ACCESS_KEY" not in seen["env"]


async def test_no_shell_reads_the_words(open_sources: OpenSources, program: Any) -> None:
    tricks = ["$(id)", "; rm -rf /", "`id`", "a b", "*", "$HOME", "", "'", "\n"]
    async with open_sources({"p": program({"show": SHOW})}) as app:
        result = await app.call("p.show", words=tricks)
    assert result.structured["argv"] == ["--", *tricks]


@examples(15)
@given(value=st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_any_text_reaches_the_program_as_it_is(program: Any, tmp_path: Path, value: str) -> None:
    import spindle
    from spindle.settings import Settings

    command = {**SHOW, "parameters": {"it": {"flag": "--it"}}}
    given = Settings(tmp_path, {"sources": {"p": program({"show": command})}, "store": ":memory:"})
    with spindle.open(settings=given) as app:
        assert app.call("p.show", it=value).structured["argv"] == [f"--it={value}"]


# --- output


@pytest.mark.parametrize(
    ("text", "output", "value"),
    [
        ("two\nlines\n", "text", "two\nlines"),
        ("{}\r\n", "text", "{}"),
        ("", "text", ""),
        ("a\r\n\x0cb\n", "lines", ["a", "\x0cb"]),
        ("", "lines", []),
        ('{"a": [1, null]}\n', "json", {"a": [1, None]}),
        ("null", "json", None),
        ('{"a": 1}\n\n[2]\n', "jsonl", [{"a": 1}, [2]]),
    ],
)
async def test_output_is_what_the_settings_say(
    open_sources: OpenSources, program: Any, text: str, output: str, value: Any
) -> None:
    async with open_sources({"p": program({"it": writes(text, output)})}) as app:
        result = await app.call("p.it")
    assert result.value == value
    assert result.has_structured == (output != "text")


@pytest.mark.parametrize(
    ("text", "output", "problem"),
    [
        ('{"a": 1,\n "b" 2}', "json", "line 2 column 6"),
        ("", "json", "it is empty"),
        ("[" * 100_000, "json", "levels deep"),
        ('{"a": 1}\n{"a":}\n', "jsonl", "line 2 column 6"),
        ("a\xff", "lines", "byte 1 is not UTF-8"),
    ],
)
async def test_output_that_is_something_else_is_an_error_that_names_the_place(
    open_sources: OpenSources, program: Any, text: str, output: str, problem: str
) -> None:
    async with open_sources({"p": program({"it": writes(text, output)}, **FAST)}) as app:
        with pytest.raises(ServerError, match=problem):
            await app.call("p.it")


async def test_output_that_is_not_text_is_kept_as_bytes(open_sources: OpenSources, program: Any) -> None:
    async with open_sources({"p": program({"it": writes("\xff\xfe", "text")})}) as app:
        [block] = (await app.call("p.it")).content
    assert (block.type, block.data, block.size) == ("resource", "//4=", 2)


async def test_stdin_reaches_the_program_whole(open_sources: OpenSources, program: Any) -> None:
    large = "line\n" * 200_000 + "é"
    cat = {"args": ["cat"], "stdin": "text", "parameters": {"text": "string"}}
    data = {"args": ["cat"], "stdin": "data", "output": "json", "parameters": {"data": "object"}}
    async with open_sources({"p": program({"cat": cat, "data": data})}) as app:
        assert (await app.call("p.cat", text=large)).text == large
        assert (await app.call("p.cat")).text == ""
        assert (await app.call("p.data", data={"a": [1]})).structured == {"a": [1]}


async def test_a_program_that_does_not_read_its_input_is_no_failure(
    open_sources: OpenSources, program: Any
) -> None:
    deaf = {"args": ["write", "ok"], "stdin": "text", "parameters": {"text": "string"}}
    async with open_sources({"p": program({"deaf": deaf})}) as app:
        assert (await app.call("p.deaf", text="x" * 1_000_000)).text == "ok"


# --- failures


async def test_a_failing_command_is_an_error_of_the_tool_with_its_code_and_last_lines(
    open_sources: OpenSources, program: Any
) -> None:
    async with open_sources({"p": program({"fail": {"args": ["exit", "3"]}})}) as app:
        result = await app.call("p.fail")
        assert result.is_error
        assert result.text.startswith("p.fail exited with status 3:\nline 30\n")
        assert result.structured["exit_code"] == 3
        assert result.structured["stderr"].endswith("line 49")
        assert result.structured["stdout"] == "some output"
        with pytest.raises(ToolError, match="status 3") as caught:
            await app.call("p.fail", {}, CallOptions(raise_tool_errors=True))
    assert caught.value.details["structured"]["exit_code"] == 3


async def test_an_exit_code_or_words_mean_what_the_settings_say(
    open_sources: OpenSources, program: Any
) -> None:
    commands = {"three": {"args": ["exit", "3"]}, "four": {"args": ["exit", "4"]}, "none": {"args": ["kill"]}}
    rules = {"not_found": [3, 44], "rate_limited": "was ended by SIGKILL"}
    async with open_sources({"p": program(commands, errors=rules, retry={"attempts": 1})}) as app:
        found = [(await app.call(f"p.{name}")).category for name in commands]
        with pytest.raises(NotFoundError, match="status 3"):
            await app.call("p.three", {}, CallOptions(raise_tool_errors=True))
    assert found == ["not_found", "tool", "rate_limited"]


async def test_expected_exit_codes_are_success(open_sources: OpenSources, program: Any) -> None:
    commands = {"some": {"args": ["exit", "1"], "exit_codes": [0, 1]}, "none": {"args": ["kill"]}}
    async with open_sources({"p": program(commands)}) as app:
        assert (await app.call("p.some")).text == "some output"
        killed = await app.call("p.none")
    assert killed.is_error
    assert "was ended by SIGKILL" in killed.text


async def test_a_program_that_is_not_there_is_named_with_what_to_do(
    open_sources: OpenSources, program: Any, tmp_path: Path
) -> None:
    plain = tmp_path / "plain"
    plain.write_text("not a program")
    sources = {
        "missing": program({"x": {}}, **FAST) | {"program": "no-such-program-here"},
        "folder": program({"x": {}}, cwd="no-such-folder", **FAST),
        "plain": program({"x": {}}, **FAST) | {"program": str(plain)},
    }
    async with open_sources(sources) as app:
        with pytest.raises(ConnectionFailedError, match="'no-such-program-here' was not found") as caught:
            await app.call("missing.x")
        assert not caught.value.sent
        assert "install the program" in (caught.value.hint or "")
        with pytest.raises(ConnectionFailedError, match=r"no-such-folder' was not found") as caught:
            await app.call("folder.x")
        assert "folder" in (caught.value.hint or "")
        with pytest.raises(ConnectionFailedError, match="Permission denied"):
            await app.call("plain.x")


async def test_words_that_are_too_long_for_a_command_line_are_invalid_arguments(
    open_sources: OpenSources, program: Any
) -> None:
    async with open_sources({"p": program({"show": SHOW})}) as app:
        with pytest.raises(InvalidArgumentsError, match="longer than a command line") as caught:
            await app.call("p.show", words=["x" * 300_000])
    assert "stdin" in (caught.value.hint or "")


async def test_more_output_than_allowed_ends_the_program(open_sources: OpenSources, program: Any) -> None:
    async with open_sources({"p": program({"flood": {"args": ["flood"]}}, max_result_size=100_000)}) as app:
        with pytest.raises(ResultTooLargeError, match="larger than 100000 bytes"):
            await app.call("p.flood")
    assert not groups._live


async def test_a_wrong_setting_is_named_by_its_path(open_sources: OpenSources, program: Any) -> None:
    async with open_sources({"p": program({"x": {"exit_code": [0]}})}) as app:
        with pytest.raises(ConfigurationError, match=r"commands\.x\.exit_code: .*did you mean `exit_codes`"):
            await app.sync()


# --- ending


def family(file: Path, manner: str) -> dict[str, Any]:
    return {"args": ["family", str(file), manner]}


async def ended(pids: list[int]) -> None:
    for pid in pids:
        await process_end(pid)
    await until(lambda: not any(is_running(pid) for pid in pids))


async def test_a_timeout_leaves_no_child(open_sources: OpenSources, program: Any, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    async with open_sources({"p": program({"hang": family(pids, "wait")}, **FAST)}) as app:
        seconds = 0.5
        while not pids.exists():
            # Both processes hang for ever once they have started, however long that takes.
            with pytest.raises(CallTimeoutError):
                await app.call("p.hang", {}, CallOptions(timeout=seconds))
            seconds *= 2
        await ended(json.loads(pids.read_text()))


@pytest.mark.parametrize("manner", ["wait", "stubborn"])
async def test_a_cancelled_call_leaves_no_child(
    open_sources: OpenSources, program: Any, tmp_path: Path, manner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "TERM_GRACE", 0.1)
    pids = tmp_path / "pids"
    async with open_sources({"p": program({"hang": family(pids, manner)}, **FAST)}) as app:
        call = asyncio.create_task(app.call("p.hang"))
        await until(pids.exists)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await ended(json.loads(pids.read_text()))


async def test_what_a_program_leaves_in_the_background_ends_with_it(
    open_sources: OpenSources, program: Any, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    async with open_sources({"p": program({"leave": family(pids, "leave")}, **FAST)}) as app:
        assert not (await app.call("p.leave")).is_error
        await ended(json.loads(pids.read_text()))


def escaping(pids: Path, manner: str, then: str) -> dict[str, Any]:
    return {"args": ["escape", str(pids), manner, then]}


@pytest.mark.parametrize("manner", ["session", "daemon", "bare"])
async def test_a_call_that_is_given_up_leaves_nothing_that_left_its_group(
    open_sources: OpenSources, program: Any, tmp_path: Path, manner: str
) -> None:
    pids = tmp_path / "pids"
    bystander = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        async with open_sources({"p": program({"go": escaping(pids, manner, "hang")}, **FAST)}) as app:
            call = asyncio.create_task(app.call("p.go"))
            await until(pids.exists)
            leader, escaped = json.loads(pids.read_text())
            assert os.getpgid(escaped) != os.getpgid(leader) == leader
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await process_end(escaped)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


async def test_a_timeout_ends_what_left_the_group_too(
    open_sources: OpenSources, program: Any, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    async with open_sources({"p": program({"go": escaping(pids, "daemon", "hang")}, **FAST)}) as app:
        seconds = 0.5
        while not pids.exists():
            with pytest.raises(CallTimeoutError):
                await app.call("p.go", {}, CallOptions(timeout=seconds))
            seconds *= 2
        await process_end(json.loads(pids.read_text())[1])


async def test_a_daemon_may_be_left_by_a_program_that_ends_by_itself(
    open_sources: OpenSources, program: Any, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    async with open_sources({"p": program({"go": escaping(pids, "daemon", "end")}, **FAST)}) as app:
        assert not (await app.call("p.go")).is_error
        escaped = json.loads(pids.read_text())[1]
        assert is_running(escaped)
        os.kill(escaped, signal.SIGKILL)
        await process_end(escaped)


async def test_a_second_cancellation_leaves_nothing_either(
    open_sources: OpenSources, program: Any, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    async with open_sources({"p": program({"go": escaping(pids, "session", "hang")}, **FAST)}) as app:
        call = asyncio.create_task(app.call("p.go"))
        await until(pids.exists)
        call.cancel()
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        for pid in json.loads(pids.read_text()):
            await process_end(pid)


def test_marks_are_handed_on_and_the_innocent_are_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(descendants.MARK, "outer")
    env, mark = descendants.marked({"A": "1"})
    assert env == {"A": "1", descendants.MARK: f"outer {mark}"}
    child = subprocess.Popen(["sleep", "600"], env={**os.environ, **env})
    try:
        known = descendants.identify(child.pid)
        assert known is not None
        assert descendants.descendants(known, "no such mark") == {known}
        assert descendants.descendants(None, mark) == {known}
        other = descendants.Process(child.pid, known.started - 1)  # the number, but not that process
        assert descendants.descendants(other, "no such mark") == set()
        descendants.end([other], other, "no such mark")
        assert child.poll() is None
        descendants.end([], known, mark)
        assert child.wait() == -signal.SIGKILL
    finally:
        child.kill()
        child.wait()


async def test_a_tool_that_left_the_settings_is_not_found(program: Any, tmp_path: Path) -> None:
    config = CliConfig.model_validate(program({"show": SHOW}))
    session = CliSession("p", config, tmp_path, Credential(env=(("WHO", "me"),)))
    gone = Tool("p.gone", "p", "cli", ToolSpec("gone"), "")
    with pytest.raises(NotFoundError, match="no longer defined"):
        await session.invoke(gone, Call("p.gone", {}))
    [spec] = await session.discover()
    shown = await session.invoke(Tool("p.show", "p", "cli", spec, ""), Call("p.show", {}))
    assert shown.structured["env"]["WHO"] == "me"
