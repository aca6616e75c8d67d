"""Resources and prompts at the command line, of real MCP servers of both eras."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.test_terminal import Terminal
from servers import warm

SERVERS = Path(__file__).parent.parent / "servers"
FIXTURE = [warm.PYTHON, str(SERVERS / "conformance" / "fixture_server.py")]
ERAS = pytest.mark.parametrize("era", ["handshake", "2026-07-28"])


def add(workspace: Any, name: str, command: list[str], **settings: Any) -> None:
    table = {"command": command, **settings}
    lines = [f"{key} = {json.dumps(value)}" for key, value in table.items()]
    with (workspace.root / "spindle.toml").open("a") as file:
        file.write(f"[sources.{name}]\n" + "\n".join(lines) + "\n")


@pytest.fixture
def changing(workspace: Any, tmp_path: Path) -> Any:
    """A source whose resource changes when it is watched; it dies once after that."""
    command = [sys.executable, "-I", "-S", str(SERVERS / "changing_server.py"), str(tmp_path / "died")]
    add(workspace, "changing", command, protocol="handshake")
    return workspace


@ERAS
def test_resources_are_listed_and_read(workspace: Any, spindle: Any, era: str, tmp_path: Path) -> None:
    add(workspace, "fix", FIXTURE, protocol=era)
    listed = spindle("resources").out.splitlines()
    assert "test://static-text\tfix\ttext/plain\tThe fixture test://static-text." in listed
    assert "test://template/{id}/data\tfix\tapplication/json\tA template." in listed
    as_json = spindle("resources", "fix", "--json").json
    assert [item["uri"] for item in as_json if item.get("is_template")] == ["test://template/{id}/data"]

    text = spindle("read", "test://static-text")
    assert (text.code, text.out) == (0, "This is the content of the static text resource.")
    assert '"id":"7"' in spindle("read", "test://template/7/data").out
    file = tmp_path / "picture.png"
    wrote = spindle("read", "test://static-binary", "--output", str(file))
    assert wrote.code == 0
    assert file.read_bytes().startswith(b"\x89PNG")
    (block,) = spindle("read", "test://static-binary", "--json").json["content"]
    assert (block["type"], block["mime_type"]) == ("resource", "image/png")
    records = spindle("history", "--json").json
    assert {(item["tool"], item["source"], item["outcome"]) for item in records} == {
        ("fix.resources/read", "fix", "ok")
    }
    assert records[-1]["arguments"] == {"uri": "test://static-text"}


@ERAS
def test_prompts_are_listed_and_filled_in(workspace: Any, spindle: Any, era: str) -> None:
    add(workspace, "fix", FIXTURE, protocol=era)
    listed = spindle("prompts").out.splitlines()
    assert "fix.test_prompt_with_arguments\targ1 arg2\tThe fixture test_prompt_with_arguments." in listed
    name = "fix.test_prompt_with_arguments"
    filled = spindle("prompt", name, "--arg", "arg1=a=b", "--arg", "arg2=")
    assert (filled.code, filled.out) == (0, "Prompt with arguments: arg1='a=b', arg2=''\n")
    several = spindle("prompt", "test_prompt_with_image").out.splitlines()
    assert several[0] == "user:"
    assert several[1].startswith("[image, image/png")
    assert several[2:] == ["user:", "Please analyze the image above."]
    messages = spindle("prompt", "test_simple_prompt", "--json").json["messages"]
    assert messages[0]["content"]["text"] == "This is a simple prompt for testing."


def test_mistakes_explain_themselves(workspace: Any, spindle: Any) -> None:
    add(workspace, "fix", FIXTURE)
    workspace.write("tools/x.py", "from spindle import tool\n@tool\ndef x() -> int:\n    return 1\n")
    for words, code, message in (
        (("read", "test://nowhere"), 3, "there is no resource 'test://nowhere'"),
        (("read", "test://static-tex"), 3, "did you mean 'test://static-text'?"),
        (("read", "test://nowhere", "--source", "fix"), 3, "'fix': Resource not found"),
        (("read", "test://template/{id}/data"), 4, "put a value in the place of {id}"),
        (("read", "x", "--source", "fox"), 3, "did you mean 'fix'?"),
        (("resources", "tools"), 10, "'tools' is a source of kind python"),
        (("prompt", "fix.test_simple_promt"), 3, "did you mean 'fix.test_simple_prompt'?"),
        (("prompt", "test_prompt_with_arguments"), 4, "needs arg1, arg2"),
        (("prompt", "test_simple_prompt", "--arg", "arg1=1"), 4, "has no argument 'arg1'"),
        (("prompt", "test_simple_prompt", "--arg", "arg1"), 2, "--arg 'arg1' is not NAME=VALUE"),
        (("watch", "test://nowhere"), 3, "there is no resource"),
    ):
        done = spindle(*words)
        assert (done.code, done.out) == (code, ""), done
        assert message in done.err


def test_of_two_sources_with_one_address_the_user_says_which(workspace: Any, spindle: Any) -> None:
    for name in ("one", "two"):
        add(workspace, name, FIXTURE, prefix=False)
    unclear = spindle("read", "test://static-text")
    assert unclear.code == 3
    assert "several sources have the resource 'test://static-text'" in unclear.err
    assert "say which: one, two" in unclear.err
    assert spindle("read", "test://static-text", "--source", "two").code == 0
    unclear = spindle("prompt", "test_simple_prompt")
    assert "several prompts are called 'test_simple_prompt'" in unclear.err
    assert spindle("prompt", "test_simple_prompt", "--source", "two").code == 0


def test_a_source_that_fails_or_has_nothing_does_not_hide_the_others(changing: Any, spindle: Any) -> None:
    add(changing, "bad", ["/no/such/program"])
    listed = spindle("resources")
    assert "made://note\tchanging\t\tmade://note" in listed.out
    assert "note: bad: its resources could not be listed: cannot start 'bad'" in listed.err
    assert spindle("prompts", "changing").err == "note: changing has no prompts\n"
    assert spindle("resources", "bad").code == 7


def test_a_change_is_a_line_and_a_lost_server_is_started_again(changing: Any, spindle: Any) -> None:
    done = spindle("watch", "made://note", "--count", "2", "--json", "--timeout", "200")
    assert done.code == 0, done.err
    first, second = (json.loads(line) for line in done.out.splitlines())
    assert first["uri"] == second["uri"] == "made://note"
    assert first["source"] == "changing"
    assert done.err.startswith("watching made://note\n")
    assert "lost 'changing'" in done.err


def test_watching_ends_cleanly_with_ctrl_c(changing: Any) -> None:
    (changing.root.parent / "died").touch()
    terminal = Terminal("watch", "made://note")
    terminal.read_until("\tmade://note")
    terminal.process.send_signal(signal.SIGINT)
    assert "Traceback" not in terminal.read_all()
    assert terminal.process.returncode == 130


def test_nothing_raw_reaches_a_terminal(changing: Any, workspace: Any) -> None:
    seen = Terminal("read", "made://hostile").read_all()
    assert r"before\x1b[2Jafter\x07" in seen
    add(workspace, "fix", FIXTURE)
    terminal = Terminal("read", "test://static-binary", "--source", "fix")
    seen = terminal.read_all()
    assert "is not text, but image/png" in seen
    assert "--output FILE" in seen
    assert terminal.process.returncode == 2


def test_a_pipe_gets_every_byte(changing: Any, workspace: Any) -> None:
    import subprocess

    add(workspace, "fix", FIXTURE)
    words = [warm.SPINDLE, "read", "test://static-binary", "--source", "fix"]
    piped = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
    assert piped.stdout.startswith(b"\x89PNG")
    words = [warm.SPINDLE, "read", "made://hostile"]
    piped = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
    assert piped.stdout == b"before\x1b[2Jafter\x07\n"
