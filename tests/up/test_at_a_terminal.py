"""Warm commands at a real terminal: forms, approvals, tables and Ctrl-C are those of the person there."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.test_terminal import Terminal, plain
from up.conftest import Shell, Up

CURIOUS = Path(__file__).parent.parent / "servers" / "curious_server.py"


@pytest.fixture
def up(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Up]:
    """A server for the terminals of this process."""
    for name, value in shell.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(shell.root)
    command = json.dumps([sys.executable, "-I", "-S", str(CURIOUS), str(tmp_path / "did")])
    shell.write_settings(
        f'approve = ["wipe"]\n[sources.ask]\ncommand = {command}\nprotocol = "handshake"\n'
        '[up]\nignore_env = ["PYTEST_*", "SPINDLE_TEST*"]\n'
    )
    assert shell("sync", env=shell.cold).code == 0
    with shell.up() as up:
        assert shell("tools").err == ""
        yield up


def done_warm(up: Up, code: int) -> bool:
    return any(f"exit code {code} " in line for line in up.lines_until(f"call: exit code {code} "))


def test_forms_are_filled_in_at_the_callers_terminal(up: Up) -> None:
    for city in ("Oslo", "Rome"):  # the second one through a session that the first has opened
        terminal = Terminal("call", "ask.weather")
        terminal.read_until("ask asks: ")
        terminal.read_until("city: ")
        terminal.write(f"{city}\n")
        assert f'{{"city": "{city}"}}' in terminal.read_all()
        assert terminal.process.returncode == 0
        assert done_warm(up, 0)


def test_without_a_terminal_the_same_call_pauses(up: Up, shell: Shell) -> None:
    done = shell("call", "ask.weather")
    assert done.code == 75
    assert "to continue: spindle resume" in done.err
    assert done_warm(up, 75)


def test_two_terminals_get_their_own_questions(up: Up) -> None:
    one, other = Terminal("call", "ask.weather"), Terminal("call", "s.wipe")
    one.read_until("city: ")
    other.read_until("approve? [y/N] ")
    other.write("y\n")
    assert "done" in other.read_all()
    one.write("Rome\n")
    assert '{"city": "Rome"}' in one.read_all()
    assert "approve?" not in one.seen


def test_ctrl_c_at_a_question_ends_it(up: Up, shell: Shell) -> None:
    terminal = Terminal("call", "ask.weather")
    terminal.read_until("city: ")
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.read_all().endswith("\nspindle: cancelled\n")
    assert terminal.process.returncode == 130
    assert shell("call", "s.echo", "text=next").out == "next\n"


@pytest.mark.parametrize(
    "words", [("tools",), ("call", "s.echo", "text=hi"), ("sources",), ("call", "s.none")]
)
def test_a_terminal_shows_the_same_warm_and_cold(up: Up, shell: Shell, words: tuple[str, ...]) -> None:
    warm = Terminal(*words)
    cold = Terminal(*words, XDG_RUNTIME_DIR=shell.cold["XDG_RUNTIME_DIR"])
    assert warm.read_all() == cold.read_all()
    assert warm.process.returncode == cold.process.returncode


def test_the_width_and_the_colours_are_those_of_the_caller(up: Up) -> None:
    narrow = plain(Terminal("tools", COLUMNS="40").read_all()).splitlines()
    wide = plain(Terminal("tools", COLUMNS="140").read_all()).splitlines()
    assert max(map(len, narrow)) <= 40 < max(map(len, wide))
    assert "\x1b[1m" in Terminal("tools").read_all()
    assert "\x1b[1m" not in Terminal("tools", NO_COLOR="1").read_all()
