"""The parts of `spindle up` that can be looked at alone: what is compared, how messages are cut, and which
workspace a client means."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spindle.up import client
from spindle.up.environment import differing
from spindle.up.messages import LONGEST_MESSAGE, MessageLines, encoded


def test_what_every_terminal_has_of_its_own_is_not_compared() -> None:
    own = {"PATH": "/bin", "TERM": "xterm", "KEY": "a", "SSH_TTY": "/dev/pts/1", "KITTY_PID": "1"}
    theirs = {"PATH": "/bin", "TERM": "dumb", "KEY": "b", "MORE": "c", "COLUMNS": "80"}
    assert differing(own, own | {"PWD": "/", "SPINDLE_DEBUG": "1"}) == []
    assert differing(own, theirs) == ["KEY", "MORE"]
    assert differing(own, theirs, ["MO*"]) == ["KEY"]
    assert differing(own, own | {"SPINDLE_TRUST": "1"}) == ["SPINDLE_TRUST"]
    assert differing({"EMPTY": ""}, {}) == ["EMPTY"]


def test_messages_are_cut_wherever_the_pieces_end() -> None:
    sent = [{"a": 1}, {"text": "ü\udcff\n"}, {}]
    data = b"".join(map(encoded, sent))
    for size in (1, 2, 3, 7, len(data)):
        lines, found = MessageLines(), []
        for start in range(0, len(data), size):
            found += lines.add(data[start : start + size])
        assert found == sent


@pytest.mark.parametrize(
    "data", [b"x" * (LONGEST_MESSAGE + 1), b"{}\n" + b"x" * (LONGEST_MESSAGE + 1), b"[]\n"]
)
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        MessageLines().add(data)


@pytest.mark.parametrize(
    ("words", "root"),
    [
        ("call t", "here"), ("--json call t", "here"), ("-w other call t", "other"),
        ("call -w other t", "other"),
        ("--workspace=other tools", "other"), ("tools -wother", "other"),
        ("-w other/spindle.toml tools", "other"),
        ("call t -- -w other", "here"),
    ],
)  # fmt: skip
def test_the_workspace_that_is_meant(
    words: str, root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPINDLE_WORKSPACE", raising=False)
    for name in ("here", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "spindle.toml").touch()
    (tmp_path / "here" / "other").symlink_to(tmp_path / "other")
    monkeypatch.chdir(tmp_path / "here")
    found = client.find(words.split())
    assert found is not None
    assert os.path.realpath(found.root) == str(tmp_path / root)


@pytest.mark.parametrize(
    "words",
    [
        "",
        "--help",
        "call --help",
        "call t --help",
        "sync",
        "serve --stdio",
        "tools connect time",
        "--trust call t",
        "-w",
    ],
)
def test_what_is_never_for_a_server(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spindle.toml").touch()
    monkeypatch.chdir(tmp_path)
    assert client.find(["call", "t"]) is not None
    assert client.find(words.split()) is None
    monkeypatch.setenv("SPINDLE_TRAIL", "0123456789abcdef")
    assert client.find(["call", "t"]) is None
