"""`spindle registry add-mcp`, as the specification of pflow's integration has it."""

from __future__ import annotations

import shlex
import sys

import pytest

from servers.shell import MINI_SERVER, TOOLS


@pytest.fixture
def line(workspace) -> str:
    import json

    (workspace.root / "tools.json").write_text(json.dumps(TOOLS))
    return shlex.join([sys.executable, str(MINI_SERVER), str(workspace.root / "tools.json")])


def names(spindle) -> list[str]:
    return [tool["name"] for tool in spindle("registry", "list", "--filter", "mcp", "--json").json]


def test_a_server_is_added_with_one_tool_and_then_another(line, workspace, spindle):
    done = spindle("registry", "add-mcp", "--server", "mini", "--tool", "echo", "--command", line)
    assert (done.code, names(spindle)) == (0, ["mini.echo"])
    with (workspace.root / "spindle.toml").open("a") as file:
        file.write("timeout = 7.0\n")
    done = spindle("registry", "add-mcp", "--server=mini", "--tool=data", f"--command={line}")
    assert (done.code, names(spindle)) == (0, ["mini.data", "mini.echo"])
    assert "timeout = 7.0" in (workspace.root / "spindle.toml").read_text(), "what else it says is kept"
    assert spindle("call", "mini.echo", "--text=hi").code == 0


def test_a_server_is_added_with_all_its_tools(line, workspace, spindle):
    words = ("--server", "mini", "--command", line, "--transport", "stdio", "--env", "A=b")
    assert spindle("registry", "add-mcp", *words).code == 0
    assert len(names(spindle)) == len(TOOLS)
    assert 'A = "b"' in (workspace.root / "spindle.toml").read_text()
    assert spindle("registry", "add-mcp", "--server=mini", "--tool=echo", f"--command={line}").code == 0
    assert len(names(spindle)) == len(TOOLS), "it offers all already"
    again = spindle("registry", "add-mcp", "--server=mini", "--tool=echo", f"--command={sys.executable}")
    assert again.code == 2
    assert "already has a source 'mini'" in again.err


def test_a_tool_that_the_server_does_not_have_is_refused_and_changes_nothing(line, workspace, spindle):
    done = spindle("registry", "add-mcp", "--server=mini", "--tool=ehco", f"--command={line}")
    assert done.code == 3
    assert "mini has no tool 'ehco', so nothing was added" in done.err
    assert "spindle tools --from " in done.err
    assert "mini" not in (workspace.root / "spindle.toml").read_text()
    assert spindle("registry", "add-mcp", "--server=mini", "--tool=echo", f"--command={line}").code == 0
    known = (workspace.root / "spindle.toml").read_text()
    assert spindle("registry", "add-mcp", "--server=mini", "--tool=ehco", f"--command={line}").code == 3
    assert (workspace.root / "spindle.toml").read_text() == known


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--command", "x"], "Missing option '--server'"),
        (["--server", "x"], "give either --command or --url"),
        (
            ["--server", "x", "--command", "a", "--url", "http://localhost:1"],
            "give either --command or --url",
        ),
        (["--server", "x", "--command", ""], "--command is empty"),
        (["--server", "x", "--command", "a 'b"], "No closing quotation"),
    ],
)
def test_mistakes_are_named(workspace, spindle, words, message):
    done = spindle("registry", "add-mcp", *words)
    assert done.code == 2
    assert message.lower() in done.err.lower()
