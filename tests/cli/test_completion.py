"""TAB: a tool's own flags and values, names of sources and presets; quickly, and without running anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from click.shell_completion import get_completion_class

from servers import warm
from spindle.cli.main import GROUP
from spindle.cli.shells import know_shells

HOSTILE = "$(touch hacked); x"
PAINT = {
    "name": "colour",
    "description": "Choose a colour.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "shade": {
                "type": "string",
                "enum": ["red", "green", HOSTILE, "\x1b[31m"],
                "description": "Which:\none.",
            },
            "deep": {"type": "boolean"},
            "flat": {"type": "boolean", "default": True},
            "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
            "level": {"enum": [1, 2, None]},
        },
        "required": ["shade"],
    },
}
FLAGS = ["--shade", "--deep", "--no-flat", "--tags", "--level"]


@pytest.fixture
def server(workspace, spindle):
    workspace.add_server(PAINT, screen="off")  # one of its values is an escape
    spindle("sync")
    return workspace


@pytest.fixture
def complete(monkeypatch):
    """The values offered for a line that ends where TAB is pressed."""
    know_shells()

    def press(line: str, shell: str = "bash") -> list[str]:
        typed = line.split(" ")
        words = line.replace("=", " = ").split() if shell == "bash" else line.split()
        last = "" if not typed[-1] else words[-1]
        at = len(words) - bool(last)
        monkeypatch.setenv("COMP_WORDS", " ".join(words) if shell == "bash" else line)
        monkeypatch.setenv("COMP_CWORD", last if shell == "fish" else str(at))
        known = get_completion_class(shell)
        assert known is not None
        said = known(GROUP, {}, "spindle", "_SPINDLE_COMPLETE").complete().splitlines()
        if shell == "zsh":
            return said[1::3]
        return [line.partition(",")[2].partition("\t")[0] for line in said]

    return press


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_tools_own_flags_are_offered(server, complete, shell):
    assert complete("spindle call colour --", shell)[:5] == FLAGS
    assert complete("spindle call mini.colour ", shell) == FLAGS
    assert complete("spindle call colour --sh", shell) == ["--shade"]
    assert complete("spindle call colour --shade red --t", shell) == ["--tags", "--timeout", "--trace"]
    assert "--shade" not in complete("spindle call colour --shade red --", shell)
    assert "--tags" in complete("spindle call colour --tags a --", shell)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_values_of_a_choice_are_offered(server, complete, shell):
    assert complete("spindle call colour --shade re", shell) == ["red"]
    assert complete("spindle call colour --tags ", shell) == ["a", "b"]
    assert complete("spindle call colour --level ", shell) == ["1", "2"]
    prefix = "" if shell == "bash" else "--shade="
    assert complete("spindle call colour --shade=g", shell) == [f"{prefix}green"]
    prefix = "" if shell == "bash" else "shade="
    assert complete("spindle call colour shade=g", shell) == [f"{prefix}green"]


def test_a_value_cannot_become_a_command(server, complete):
    assert complete("spindle call colour --shade ") == ["red", "green", f"'{HOSTILE}'"]


def test_inputs_of_a_flow_are_offered(server, complete, spindle):
    flow = {"inputs": {"shade": {"enum": ["dark", "light"]}}, "nodes": [{"id": "a", "tool": "mini.colour"}]}
    server.write("flows/repaint.json", json.dumps(flow))
    spindle("sync")
    assert complete("spindle run rep") == ["repaint"]
    assert complete("spindle run repaint --sh") == ["--shade"]
    assert complete("spindle run repaint --shade ") == ["dark", "light"]
    assert complete("spindle run mini.colour --le") == ["--level"]
    assert complete("spindle run repaint --fr") == ["--from"]


def test_names_of_tools_sources_presets_and_calls_are_offered(server, complete, spindle):
    spindle("call", "colour", "shade=red")
    key = spindle("history", "--json").json[0]["key"][:8]
    assert complete("spindle call mi") == ["mini.colour"]
    assert complete("spindle show mini.") == ["mini.colour"]
    assert complete("spindle tools m") == ["mini"]
    assert complete("spindle tools --source m") == ["mini"]
    assert complete("spindle sync m") == ["mini"]
    assert complete("spindle add files") == ["filesystem"]
    assert complete(f"spindle history {key[:4]}") == [key]
    assert complete("spindle compl") == ["completion"]


@pytest.mark.parametrize(
    "line",
    [
        "spindle call ",
        "spindle call x --",
        "spindle call x y=",
        "spindle tools ",
        "spindle run ",
        "spindle trace ",
    ],
)
def test_without_a_workspace_nothing_happens(folder, complete, line):
    assert [value for value in complete(line) if not value.startswith("--") and value != "connect"] == []
    assert os.listdir(folder) == []
    assert not os.path.exists(os.environ["SPINDLE_HOME"])


def test_a_broken_workspace_offers_nothing(workspace, complete):
    workspace.write("spindle.toml", "[sources.a]\ncommand = \n")
    assert complete("spindle call ") == []
    workspace.write("spindle.toml", "store = 'postgresql://127.0.0.1:1/none?connect_timeout=1'\n")
    assert complete("spindle call ") == []


def test_no_code_of_the_workspace_runs(server, complete):
    before = server.server_pids
    server.write("tools/evil.py", f"open({str(server.root / 'ran')!r}, 'w')\n")
    server.write("flows/evil.py", f"open({str(server.root / 'ran')!r}, 'w')\n")
    for line in (
        "spindle call ",
        "spindle call colour --",
        "spindle run ",
        "spindle tools ",
        "spindle show ",
    ):
        complete(line)
    assert complete("spindle call --from python3 ") == []
    assert complete("spindle call --from python3 x ") == []
    assert server.server_pids == before
    assert not (server.root / "ran").exists()


def test_bash_completes_by_its_own_script(server):
    script = """
        eval "$(spindle completion bash)"
        press() { COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=(); _spindle_completion spindle; }
        press spindle call colour --sh; printf '%s\\n' "${COMPREPLY[@]}"
        press spindle call colour --shade = gr; printf '%s\\n' "${COMPREPLY[@]}"
        press spindle call colour --shade ''; printf '%s\\n' "${COMPREPLY[@]}"
        eval "echo ${COMPREPLY[2]}"
    """
    environment = {**os.environ, "PATH": f"{warm.FOLDER}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, env=environment, timeout=300
    )
    assert done.stdout.splitlines() == ["--shade", "green", "red", "green", f"'{HOSTILE}'", HOSTILE], (
        done.stderr
    )
    assert not (server.root / "hacked").exists()


def test_completion_loads_nothing_heavy(server):
    heavy = (
        "pydantic",
        "mcp",
        "httpx",
        "httpx2",
        "rich",
        "uvicorn",
        "jsonschema",
        "cryptography",
        "spindle.app",
    )
    script = (
        "import os, sys\n"
        "from spindle.cli.main import run\n"
        "try:\n    run()\n"
        f"except SystemExit:\n    print([name for name in {heavy} if name in sys.modules], file=sys.stderr)\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    environment |= {
        "_SPINDLE_COMPLETE": "bash_complete",
        "COMP_WORDS": "spindle call colour --sh",
        "COMP_CWORD": "3",
    }
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert (done.stdout, done.stderr) == ("plain,--shade\n", "[]\n")
