"""Help, version, mistyped commands, and what they cost."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from servers import warm
from spindle.cli.main import GROUP, SECTIONS
from spindle.version import __version__

# What measures coverage would be measured too.
UNMEASURED = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
HEAVY = ("asyncio", "pydantic", "mcp", "rich", "orjson", "sqlite3")


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["toolz"]])
def test_help_loads_nothing_heavy(words):
    script = (
        "import sys\n"
        "from spindle.cli.main import execute\n"
        f"execute({words})\n"
        f"print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)\n"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=UNMEASURED)
    assert done.stderr.splitlines()[-1] == "[]"


def test_listing_what_is_stored_types_no_settings(workspace, spindle):
    workspace.add_server()
    spindle("sync")
    script = (
        "import sys\n"
        "from spindle.cli.main import execute\n"
        "execute(['tools'])\n"
        "print('pydantic' in sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=300,
        env=UNMEASURED,
        check=False,
    )
    assert "mini.echo" in done.stdout
    assert done.stderr.splitlines()[-1] == "False"


def test_help_comes_in_a_blink():
    """The time goes into importing, so modules are counted: a clock would measure the machine."""
    script = (
        "import sys\n"
        "from spindle.cli.main import execute\n"
        "execute(['--help'])\n"
        "print(len(sys.modules), sum(name.startswith('spindle') for name in sys.modules), file=sys.stderr)\n"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=UNMEASURED)
    every, our_own = map(int, done.stderr.split())
    assert every < 150
    assert our_own < 12


def test_help_lists_every_command(spindle):
    done = spindle("--help")
    assert done.code == 0
    for section in SECTIONS.values():
        for name in section:
            assert f"  {name} " in done.out


def test_without_a_command_the_help_is_shown(spindle):
    assert spindle().out == spindle("--help").out


def test_a_group_without_a_command_shows_its_help(spindle):
    done = spindle("mcp")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("Usage: spindle mcp ")


@pytest.mark.parametrize("name", [name for section in SECTIONS.values() for name in section])
def test_every_command_explains_itself(spindle, name):
    done = spindle(name, "--help")
    assert done.code == 0
    assert done.out.startswith(f"Usage: spindle {name} ")


def test_every_command_takes_json_and_a_workspace():
    import click

    context = click.Context(GROUP)
    for name in (name for title, section in SECTIONS.items() if title != "Other names" for name in section):
        command = GROUP.get_command(context, name)
        assert command is not None
        options = {option for parameter in command.params for option in parameter.opts}
        assert {"--json", "--workspace", "-w"} <= options


def test_the_version_is_printed(spindle):
    assert spindle("--version").out == f"spindle {__version__}\n"


def test_a_mistyped_command_gets_a_suggestion(spindle):
    done = spindle("tolls")
    assert done.code == 2
    assert done.err == "spindle: there is no command 'tolls'\n  hint: did you mean `spindle tools`?\n"


def test_a_command_that_is_nothing_like_any_points_to_the_help(spindle):
    assert spindle("xyzzy").err == "spindle: there is no command 'xyzzy'\n  hint: see `spindle --help`\n"


def test_a_mistyped_command_of_a_group_gets_a_suggestion(spindle):
    assert "did you mean `spindle mcp remove`?" in spindle("mcp", "remov").err


def test_an_unknown_option_is_one_line(spindle):
    done = spindle("tools", "--sauce", "x")
    assert done.code == 2
    first, hint = done.err.splitlines()
    assert first.startswith("spindle: no such option")
    assert hint == "  hint: see `spindle tools --help`"


def test_a_missing_argument_is_one_line(spindle):
    done = spindle("show")
    assert done.code == 2
    assert done.err.splitlines()[0] == "spindle: missing argument 'TOOL'"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(spindle, shell):
    done = spindle("completion", shell)
    assert done.code == 0
    assert "_SPINDLE_COMPLETE" in done.out


def test_tool_names_are_completed(workspace, spindle):
    workspace.write("tools/t.py", "from spindle import tool\n@tool\ndef greet(): ...\n")
    spindle("sync")
    environment = {
        **os.environ,
        "_SPINDLE_COMPLETE": "bash_complete",
        "COMP_WORDS": "spindle show gr",
        "COMP_CWORD": "2",
    }
    command = [warm.SPINDLE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.stdout == "plain,greet\n"
    assert done.stderr == ""


def test_commands_and_sources_are_completed(workspace):
    workspace.add_server()

    def complete(words: str) -> list[str]:
        asked = {
            "_SPINDLE_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(words.count(" ")),
        }
        command = [warm.SPINDLE]
        done = subprocess.run(
            command, env={**os.environ, **asked}, capture_output=True, text=True, timeout=60
        )
        return done.stdout.split()

    assert complete("spindle s") == [
        "plain,sources",
        "plain,sync",
        "plain,search",
        "plain,show",
        "plain,schedule",
        "plain,serve",
        "plain,secret",
    ]
    assert complete("spindle sync m") == ["plain,mini"]
    assert complete(f"spindle -w {workspace.root} remove mi") == ["plain,mini"]
    workspace.write("spindle.toml", "broken")
    assert complete("spindle sync m") == []
