"""Tapes that were cut, that find no room, and that two processes record at once."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from servers import warm
from servers.running import PATIENCE
from spindle.calls.tape import Tape, TapedTool
from spindle.calls.tape_writer import TapeWriter
from spindle.cli.main import execute
from spindle.domain.call import Result
from spindle.domain.tool import ToolSpec
from spindle.errors import ConfigurationError, NotFoundError
from spindle.testing import workspace

TOOLS = '''
from pathlib import Path

from spindle import tool

@tool(read_only=True)
def read() -> str:
    """Reads the note."""
    return "seen"

@tool(read_only=True)
def held() -> str:
    """Waits until somebody says something."""
    with open("started", "w") as file:
        file.write("x")
    return Path("said").read_text()

@tool
def many(number: int) -> str:
    """Says much, and counts how often."""
    with open("made", "a") as file:
        file.write("x")
    return "ä" * number
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, a workspace."""
    (tmp_path / "spindle.toml").touch()
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "notes.py").write_text(TOOLS)
    os.mkfifo(tmp_path / "started")
    os.mkfifo(tmp_path / "said")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPINDLE_TRUST", "1")
    return tmp_path


def shout(text: str) -> str:
    """Returns the text in capitals."""
    return text.upper()


async def recorded(tape: Path) -> bytes:
    async with workspace([shout], record=tape) as app:
        await app.call("shout", text="öne")
        await app.call("shout", text="two")
    return tape.read_bytes()


async def test_a_tape_that_is_cut_anywhere_says_so_and_where(tmp_path: Path) -> None:
    tape = tmp_path / "t.jsonl"
    whole = await recorded(tape)
    first = whole.index(b"\n") + 1
    for end in range(first, len(whole) - 1):
        tape.write_bytes(whole[:end])
        with pytest.raises(ConfigurationError) as caught:
            Tape.read(tape)
        lines = whole[:end].count(b"\n")
        # Of a line that is there but for its end nothing is missing.
        is_line = whole[end : end + 1] == b"\n"
        line = (
            f"after line {lines + is_line}"
            if is_line or whole[end - 1 : end] == b"\n"
            else f"in line {lines + 1}"
        )
        assert f"t.jsonl is cut off {line};" in caught.value.message
        assert caught.value.hint == "get the whole file again, or record it again"
    for end in (len(whole) - 1, len(whole)):
        tape.write_bytes(whole[:end])
        assert len(Tape.read(tape).takes) == 2


async def test_a_tape_that_lacks_a_line_in_the_middle_says_so(tmp_path: Path) -> None:
    tape = tmp_path / "t.jsonl"
    lines = (await recorded(tape)).splitlines(keepends=True)
    tape.write_bytes(b"".join(lines[:2] + lines[3:]))
    with pytest.raises(ConfigurationError, match="recorded with 2 calls and 1 tools, and has 1 calls and 1"):
        Tape.read(tape)


def test_the_shell_says_that_a_tape_is_cut(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["call", "--record", "t.jsonl", "read"]) == 0
    tape = folder / "t.jsonl"
    [head, call, *_] = tape.read_bytes().splitlines(keepends=True)
    tape.write_bytes(head + call)
    capsys.readouterr()
    for words in (
        ["call", "--replay", "t.jsonl", "read"],
        ["replay", "t.jsonl"],
        ["replay", "t.jsonl", "--verify"],
    ):
        assert execute(words) == 2
        told = capsys.readouterr().err
        assert "t.jsonl is cut off after line 2; 1 call is whole before that" in told
        assert "record it again" in told


@pytest.mark.parametrize(
    "line",
    [
        b'{"call": 1, "tool": "x", "arguments": ' + b'{"a":' * 100_000 + b"}" * 100_001,
        b'{"call": 1e999, "tool": "x", "arguments": {}, "result": {}}',
        b'{"call": 1, "tool": "x", "arguments": {}, "ms": ' + b"9" * 400 + b', "result": {}}',
        b'{"call": 1, "tool": "x", "arguments": {"a": NaN}, "result": {}}',
        b'{"call": 1, "tool": "x", "arguments": {}, "result": {}}',
        b'{"call": 1, "tool": "x", "arguments": {}, "result": {"content": 3, "structured": 1}}',
        b'{"call": 1, "tool": "x", "arguments": {}, "error": {}}',
        b'{"definition": {}, "name": "x", "source": "s", "kind": "mcp", "fingerprint": "f"}',
        b'{"end": 3}',
        b"\xff\xfe",
    ],
)  # fmt: skip
def test_a_hostile_line_is_refused_by_its_number(tmp_path: Path, line: bytes) -> None:
    tape = tmp_path / "t.jsonl"
    tape.write_bytes(b'{"tape": 1}\n' + line + b'\n{"end": {"calls": 1, "tools": 0}}\n')
    with pytest.raises(ConfigurationError, match=r"t.jsonl:2: this is no line of a tape"):
        Tape.read(tape)


def limited(size: int) -> Callable[[], None]:
    """Lets a process write no file over this size, as a full disk does."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def test_a_full_disk_takes_no_result_away_and_leaves_the_tape_that_was_there(folder: Path) -> None:
    tape = folder / "t.jsonl"
    assert execute(["sync"]) == 0
    assert execute(["call", "--record", "t.jsonl", "read"]) == 0
    before = tape.read_bytes()
    # Not so small that the workspace's own files find no room.
    size = 2 * max(path.stat().st_size for path in folder.rglob("*") if path.is_file()) + 4_000_000
    done = subprocess.run(
        [sys.executable, "-m", "spindle", "call", "--record", "t.jsonl", "many", "--number", str(size)],
        capture_output=True, preexec_fn=limited(size), timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "ä".encode() in done.stdout
    assert b"t.jsonl cannot be written: File too large" in done.stderr
    assert b"Traceback" not in done.stderr
    assert (folder / "made").read_text() == "x"
    assert tape.read_bytes() == before
    assert not list(folder.glob(".*.part"))


async def test_nothing_more_is_called_once_the_tape_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spindle.calls.tape_writer.MAX_SIZE", 1000)
    made: list[int] = []

    def much(number: int) -> str:
        made.append(number)
        return "x" * number

    opening = workspace([much], record=tmp_path / "t.jsonl")
    app = await opening.__aenter__()
    assert (await app.call("much", number=2000)).text == "x" * 2000
    with pytest.raises(ConfigurationError, match="would be over 1,000 bytes"):
        await app.call("much", number=1)
    with pytest.raises(ConfigurationError, match="would be over 1,000 bytes"):
        await opening.__aexit__(None, None, None)
    assert made == [2000]
    assert list(tmp_path.iterdir()) == []


def start(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "spindle", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([warm.SPINDLE, *words], capture_output=True, text=True, timeout=PATIENCE)


def test_a_tape_is_recorded_by_one_process_at_a_time(folder: Path) -> None:
    first = start("call", "--record", "t.jsonl", "held")
    assert (folder / "started").read_text() == "x"  # waits for it
    for option in ("--record", "--record-once"):
        second = run("call", option, "t.jsonl", "read")
        assert second.returncode == 2
        assert second.stdout == ""
        assert "t.jsonl is being recorded by another process" in second.stderr
        assert "name another file" in second.stderr
    assert run("call", "--record", "other.jsonl", "read").stdout == "seen\n"
    (folder / "said").write_text("at last")
    assert first.communicate(timeout=PATIENCE)[0] == "at last\n"
    assert [take.tool for take in Tape.read(folder / "t.jsonl").takes] == ["held"]
    assert run("call", "--record", "t.jsonl", "read").returncode == 0
    assert [take.tool for take in Tape.read(folder / "t.jsonl").takes] == ["read"]


def test_a_killed_recording_leaves_the_tape_before_it_and_is_in_nobodys_way(folder: Path) -> None:
    assert run("call", "--record", "t.jsonl", "read").returncode == 0
    before = (folder / "t.jsonl").read_bytes()
    killed = start("call", "--record", "t.jsonl", "held")
    assert (folder / "started").read_text() == "x"
    assert "another process" in run("call", "--record", "t.jsonl", "read").stderr
    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=PATIENCE)
    assert (folder / "t.jsonl").read_bytes() == before
    assert run("call", "--replay", "t.jsonl", "read").stdout == "seen\n"
    assert run("call", "--record", "t.jsonl", "many", "--number", "3").returncode == 0
    assert [take.tool for take in Tape.read(folder / "t.jsonl").takes] == ["many"]
    assert not list(folder.glob(".*.part"))


def test_many_writers_of_one_tape_leave_one_that_is_whole(tmp_path: Path) -> None:
    tape = tmp_path / "t.jsonl"
    code = """
import sys
from pathlib import Path
from spindle.calls.tape_writer import TapeWriter
from spindle.domain.call import Result
from spindle.errors import ConfigurationError
print("ready", flush=True)
sys.stdin.readline()
written = 0
for _ in range(200):
    try:
        writer = TapeWriter(Path(sys.argv[1]))
    except ConfigurationError as error:
        assert "another process" in error.message, error.message
        continue
    for number in range(3):
        writer.add("x", {"who": sys.argv[2]}, 0, result=Result.of_text(str(number)).to_dict())
    writer.close([])
    written += 1
print(written)
"""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tape), str(number)],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for number in range(4)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    answers = [process.communicate("\n", timeout=PATIENCE)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * 4
    assert sum(map(int, answers)) > 0
    takes = Tape.read(tape).takes
    assert [Result.from_dict(take.result or {}).text for take in takes] == ["0", "1", "2"]
    assert len({str(take.arguments) for take in takes}) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["t.jsonl"]


@pytest.mark.parametrize("planted", ["symlink", "link", "folder", "pipe"])
def test_what_lies_where_a_tape_is_written_is_not_written_to(tmp_path: Path, planted: str) -> None:
    other, part = tmp_path / "other", tmp_path / ".t.jsonl.part"
    other.write_text("precious")
    make: dict[str, Callable[[], Any]] = {
        "symlink": lambda: part.symlink_to(other), "link": lambda: part.hardlink_to(other),
        "folder": part.mkdir, "pipe": lambda: os.mkfifo(part),
    }  # fmt: skip
    make[planted]()
    with pytest.raises(ConfigurationError, match=r"t\.jsonl cannot be written"):
        TapeWriter(tmp_path / "t.jsonl")
    assert other.read_text() == "precious"


def test_a_tape_is_written_once(tmp_path: Path) -> None:
    writer = TapeWriter(tmp_path / "t.jsonl")
    spec = ToolSpec("x", "Does it.", {"type": "object"})
    writer.close([TapedTool("x", "s", "mcp", spec.whole_definition(), "f")])
    writer.add("x", {}, 0, result={})
    assert json.loads((tmp_path / "t.jsonl").read_text().splitlines()[-1]) == {
        "end": {"calls": 0, "tools": 1}
    }
    with pytest.raises(NotFoundError, match=r"no call of x is in t\.jsonl"):
        Tape.read(tmp_path / "t.jsonl").answer("x", {})


def test_a_server_that_is_away_is_told_apart_from_an_answer_that_differs(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as free:  # taken, and nobody listens
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
        document = {
            "openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "servers": [{"url": address}],
            "paths": {"/now": {"get": {"operationId": "now", "responses": {"200": {"description": "ok"}}}}},
        }  # fmt: skip
        (folder / "api.json").write_text(json.dumps(document))
        (folder / "spindle.toml").write_text(
            f'[sources.web]\nkind = "openapi"\ndocument = "api.json"\nserver = "{address}"\n'
            "retry = { attempts = 1 }\n"
        )
        writer = TapeWriter(folder / "t.jsonl")
        found = Result.of_text("seen").to_dict()
        for tool, result in (("web.now", found), ("read", found), ("reed", found)):
            writer.add(tool, {}, 0, result=result)
        writer.close([])
        assert execute(["replay", "t.jsonl", "--verify", "--json"]) == 1
        told = json.loads(capsys.readouterr().out)
        assert {item["what"]: item["outcome"] for item in told["calls"]} == {
            "reed": "differs", "call 1 of web.now": "failed", "call 2 of read": "same",
        }  # fmt: skip
        assert "did you mean 'read'?" in told["calls"][0]["why"]
        assert told["differs"]
        writer = TapeWriter(folder / "t.jsonl")
        writer.add("web.now", {}, 0, result=found)
        writer.close([])
        assert execute(["replay", "t.jsonl", "--verify", "--json"]) == 1
        assert not json.loads(capsys.readouterr().out)["differs"]
