"""Drafts from real help texts: of programs that are here, and of the forms that others write."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from servers.running import OpenSources, missing
from spindle.cli.program_help import draft as drafting
from spindle.cli.program_help.draft import draft
from spindle.cli.program_help.text import clean, described, options, parameters
from spindle.cli.program_help.usage import standing, subcommands, usage
from spindle.errors import ConnectionFailedError, NotFoundError
from spindle.sources.cli.config import CliConfig

COBRA = """Manage the fleet

Usage:
  fleet deploy NAME [flags]

Available Commands:
  start       Start it
  stop        Stop it

Flags:
  -f, --file string        where to read from
      --replicas int       how many
      --tag stringArray    a tag
      --ratio float        how much of it
  -h, --help               help for deploy
"""
CLICK = """Usage: hello [OPTIONS] SRC... DST

  Simple program that greets ${NAME}.

Options:
  --count INTEGER           Number of greetings.
  --shout / --no-shout      Loud or not.
  --kind [plain|fancy]      How to greet.
  --item TEXT               An item. May be given multiple times,
                            --count says how often.
  --                        nothing
  --version                 Show the version and exit.
  --help                    Show this message and exit.
"""
ARGPARSE = """usage: vault [-h] --key KEY [--mode {a,b}] {get,put} ...

positional arguments:
  {get,put}
    get       Read a value
    put       Write a value

options:
  -h, --help  show this help message and exit
"""


def test_options_of_cobra_programs_are_read() -> None:
    found = options(COBRA)
    assert found["file"] == {"flag": "--file", "description": "where to read from"}
    assert found["replicas"]["type"] == "integer"
    assert found["tag"]["repeat"]
    assert found["ratio"]["type"] == "number"
    assert "help" not in found
    assert standing(COBRA, ["fleet", "deploy"]) == {"name": {"required": True, "position": 1}}
    assert subcommands(COBRA) == {"start": ("Start it", ""), "stop": ("Stop it", "")}
    assert described(COBRA) == "Manage the fleet"


def test_options_of_click_programs_are_read() -> None:
    text = clean(CLICK)
    found = parameters(text, ["hello"])
    assert list(found) == ["src", "dst", "count", "shout", "kind", "item"]
    assert found["src"] == {"type": "array", "required": True, "position": 1}
    assert found["count"]["type"] == "integer"
    assert (found["shout"]["type"], found["shout"]["off"]) == ("boolean", "--no-shout")
    assert found["kind"]["enum"] == ["plain", "fancy"]
    assert found["item"]["repeat"]
    assert found["item"]["description"].endswith("--count says how often.")
    assert described(text) == "Simple program that greets {NAME}."


def test_subcommands_of_argparse_programs_are_read() -> None:
    assert subcommands(ARGPARSE) == {"get": ("Read a value", ""), "put": ("Write a value", "")}
    assert standing(ARGPARSE, ["vault"]) == {}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ls [OPTION]... [FILE]...", {"file": "array"}),
        ("docker kill [OPTIONS] CONTAINER [CONTAINER...]", {"container": "array!"}),
        ("docker build [OPTIONS] PATH | URL | -", {"path": "!"}),
        ("docker exec CONTAINER COMMAND [ARG...]", {"container": "!", "command": "!", "arg": "array"}),
        ("docker pull [OPTIONS] NAME[:TAG|@DIGEST]", {"name": "!"}),
        ("docker cp CONTAINER:SRC_PATH DEST_PATH|-", {"container_src_path": "!", "dest_path": "!"}),
        ("psql [OPTION]... [DBNAME [USERNAME]]", {"dbname": "", "username": ""}),
        ("git fetch [<options>] [<repository> [<refspec>...]]", {"repository": "", "refspec": "array"}),
        ("git grep [-e] <for> [<rev>...] [[--] <path>...]", {"for": "!", "rev": "array", "path": "array"}),
        ("git mv <source>... <destination>", {"source": "array!", "destination": "!"}),
        ("git diff --no-index [<options>] <path> <path>", {"path": "!", "path_2": "!"}),
        ("cargo add [OPTIONS] <DEP>[@<VERSION>] ...", {"dep": "array!"}),
        ("npm access list packages [<user>|<scope>] [<package>]", {"user": "", "package": ""}),
        ("jq <jq filter> [file...]\n\tjq --args <jq filter> [x...]", {"jq_filter": "!", "file": "array"}),
        ("cp [OPTION]... [-T] SOURCE DEST\n  or:  cp [OPTION]... SOURCE... DIRECTORY\n"
         "  or:  cp -t DIRECTORY SOURCE...",
         {"source": "array!", "dest": "", "directory": ""}),
        ("git checkout [<options>] <branch>\n   or: git checkout [<options>] [<branch>] -- <file>...",
         {"branch": "", "file": "array"}),
        ("git branch [<options>] [-r]\n   or: git branch <name> [<start>]\n   or: git branch -d <name>...",
         {"name": "", "start": ""}),
        ("git tag <name> [<commit>]\n   or: git tag -d <name>...", {"name": "!", "commit": ""}),
        ("git tag <name> [<commit>]\n   or: git tag -l [<pattern>...]", {"name": "", "commit": ""}),
        ("git show <object>...\n   or: git log [<range>]", {"object": "array!"}),
        ("git log [<options>] [<range>] [[--] <path>...]\n   or: git show <object>...",
         {"range": "", "path": "array"}),
        ("git diff [<commit>] [--] [<path>...]\n"
         "   or: git diff <commit> [<commit>...] <commit> [--] [<path>...]\n"
         "   or: git diff <commit>...<commit> [--] [<path>...]\n   or: git diff <blob> <blob>\n"
         "   or: git diff --no-index [--] <path> <path>", {"commit": "array", "path": "array"}),
        ("x y --key KEY [--mode MODE] NAME", {"name": "!"}),
    ],
)  # fmt: skip
def test_the_words_of_a_usage_line_are_told_apart(line: str, words: dict[str, str]) -> None:
    found = standing(f"Usage: {line}\n\nDoes it.\n", line.split()[:2])
    shown = {name: made.get("type", "") + "!" * made.get("required", False) for name, made in found.items()}
    assert shown == words
    assert [made["position"] for made in found.values()] == list(range(1, len(found) + 1))


NEXT_WORD = """Usage: mill [options] FILTER [FILE...]

Options:
  -c                     compact output
      --arg name value   set a name to a text
      --slurpfile a file set a name to what a file holds
  -L, --library <folder> where modules are
      --indent n         how many spaces
  -a  --all              take all of it
"""


def test_values_in_the_next_word_are_read_as_the_help_writes_them() -> None:
    found = options(NEXT_WORD)
    assert found["arg"] == {
        "flag": "--arg",
        "words": 2,
        "repeat": True,
        "description": "set a name to a text",
    }
    assert found["slurpfile"]["words"] == 2
    assert found["slurpfile"]["description"] == "set a name to what a file holds"
    assert found["library"] == {"flag": "--library", "separate": True, "description": "where modules are"}
    assert (found["indent"]["type"], found["indent"]["separate"]) == ("integer", True)
    assert found["all"] == {"type": "boolean", "flag": "--all", "description": "take all of it"}


@pytest.mark.parametrize(
    "sign",
    [
        "  -h, --help  show this help message and exit",
        "  --help  Show this message and exit.",
        "  -h, --help   help for deploy",
        "  -h, --help  Print help",
        "  --other=WHEN   colour",
        "      --name string   its name",
        "    --output='':\n\tthe form",
    ],
)
def test_programs_of_known_libraries_and_those_that_write_an_equals_sign_know_it(sign: str) -> None:
    found = options(f"Usage: x [options]\n\nOptions:\n  --size TEXT  how large\n{sign}\n")
    assert found["size"] == {"flag": "--size", "description": "how large"}


@pytest.mark.parametrize(
    ("text", "separator"),
    [
        ("Usage: x [options] FILE\n\n  -q   quiet\n  --   ends the options\n", False),
        ("usage: x [-h] FILE\n\noptions:\n  -h, --help  show this help message and exit\n", None),
        ("Usage: x [OPTION]... FILE\n\n      --version  output version information and exit\n", None),
        ("Usage: x [options] [--] FILE\n", None),
        ("Usage: x [options]\n", None),
    ],
)
async def test_only_programs_that_surely_know_two_dashes_get_them(
    tmp_path: Path, text: str, separator: bool | None
) -> None:
    script = tmp_path / "x"
    script.write_text(f"#!/bin/sh\ncat <<'END'\n{text}END\n")
    script.chmod(0o755)
    made, _ = await draft("x", [str(script)], (), tmp_path)
    assert made["commands"]["x"].get("separator") == separator


async def test_words_that_follow_two_dashes_of_their_own_get_their_places(tmp_path: Path) -> None:
    made, _ = await draft("git", ["git"], ["log", "checkout", "add", "show"], tmp_path)
    log, checkout, add, show = made["commands"].values()
    assert (show["args"], show["separator"]) == (["show"], "--end-of-options")
    assert log["args"] == ["log", "{revision_range}", "--", "{path}"]
    assert checkout["args"] == ["checkout", "{branch}", "--", "{file}"]
    assert add["args"] == ["add"]
    assert not {"separator"} & (log.keys() | checkout.keys() | add.keys())
    CliConfig.model_validate(made)


KUBECTL = """kubectl controls the cluster.

Basic Commands (Beginner):
  create          Create a resource

Deploy Commands:
  rollout         Manage the rollout

Usage:
  kubectl [flags] [options]
"""
SYSTEMCTL = """systemctl [OPTIONS...] COMMAND ...

Query or send control commands.

Unit Commands:
  list-units [PATTERN...]   List units
  start UNIT...             Start units

Options:
  -h --help                 Show this help
"""
APT = """apt 2.6.1 (amd64)
Usage: apt [options] command

apt is a package manager.

Most used commands:
  list - list packages
  full-upgrade - upgrade the system
"""


@pytest.mark.parametrize(
    ("text", "about", "commands"),
    [
        (KUBECTL, "kubectl controls the cluster.", ["create", "rollout"]),
        (SYSTEMCTL, "Query or send control commands.", ["list-units", "start"]),
        (APT, "apt is a package manager.", ["list", "full-upgrade"]),
    ],
)
def test_lists_of_commands_in_sections_are_read(text: str, about: str, commands: list[str]) -> None:
    assert described(text) == about
    assert list(subcommands(text)) == commands


@pytest.mark.parametrize(
    ("text", "about"),
    [
        ("Usage: sort [OPTION]... [FILE]...\n  or:  sort --files0-from=F\nWrite it.\n", "Write it."),
        ("Usage: curl [options...] <url>\n -d, --data <data>  HTTP POST\n\nThis is not the full help.\n", ""),
        ("unknown option -- -\nusage: ssh [-46] destination\n", ""),
        ("usage: pytest [options]\n\npositional arguments:\n  file\n\neach: send it\n", ""),
    ],
)  # fmt: skip
def test_what_a_program_does_is_not_taken_from_its_lists(text: str, about: str) -> None:
    assert described(text) == about


PARENT = r"""
import sys
ROWS = "  deep   Has more\n  flat   Has none\n  same UNIT...   Says the same\n"
TOP = "Usage: tool COMMAND\n\nCommands:\n" + ROWS
words = [word for word in sys.argv[1:] if word != "--help"]
if words == ["deep"]:
    print("Usage: tool deep COMMAND\n\nCommands:\n  inner   Is inside\n")
elif words == ["flat"]:
    print("Usage: tool flat FILE\n\nFlat.\n")
else:
    print(TOP)
"""


async def test_groups_are_named_and_the_list_is_used_where_a_command_has_no_help(tmp_path: Path) -> None:
    (tmp_path / "tool.py").write_text(PARENT)
    made, notes = await draft("t", [sys.executable, "tool.py"], (), tmp_path)
    assert made["commands"] == {
        "flat": {
            "description": "Has none", "args": ["flat"], "separator": False,
            "parameters": {"file": {"required": True, "position": 1}},
        },
        "same": {
            "description": "Says the same", "args": ["same"],
            "parameters": {"unit": {"type": "array", "required": True, "position": 1}},
        },
    }  # fmt: skip
    [note] = notes
    assert "left out, as they have subcommands of their own: deep" in note
    assert f"--cli -- {sys.executable} tool.py deep`" in note


def test_flags_of_clap_and_kubectl_that_take_no_value_are_booleans() -> None:
    found = options(
        "  -v, --verbose...  Say more\n    --all=false:\n\tAll of them\n    --name='':\n\tA name\n"
    )
    assert {name: made.get("type") for name, made in found.items()} == {
        "verbose": "boolean", "all": "boolean", "name": None,
    }  # fmt: skip
    assert found["verbose"]["flag"] == "--verbose"


def test_the_last_of_several_names_has_the_value() -> None:
    found = options("  -n COUNT, --number COUNT  how many\n  -delete -printf FORMAT -print  what is done\n")
    assert found["number"] == {
        "type": "integer",
        "flag": "--number",
        "description": "how many",
        "separate": True,
    }
    assert found["delete"]["type"] == "boolean"


def test_a_text_that_says_nothing_gives_nothing() -> None:
    assert (usage("hello"), options("hello"), subcommands("hello"), described("")) == ("", {}, {}, "")


def installed(name: str) -> str:
    beside = shutil.which(name, path=str(Path(sys.executable).parent))
    return beside or shutil.which(name) or missing(f"{name} is not installed")


@pytest.mark.parametrize(
    ("program", "wanted", "expected"),
    [
        (["git"], ["log", "commit"], {"log": {"quiet", "revision_range"}, "commit": {"message", "pathspec"}}),
        ([sys.executable, "-m", "json.tool"], [], {"json.tool": {"infile", "sort_keys", "indent"}}),
        (["ls"], [], {"ls": {"all", "file", "block_size"}}),
        (["tar"], [], {"tar": {"create", "file", "file_words"}}),
        pytest.param(
            ["npm"], ["install"], {"install": {"omit", "package_spec", "save_exact"}}, marks=pytest.mark.npm
        ),
        (["ruff"], [], {"check": {"files", "fix", "output_format"}, "rule": {"rule"}}),
        (["pip"], ["install", "list"], {"install": {"requirement", "target"}, "list": {"outdated"}}),
    ],
    ids=lambda value: "-".join(value)[-12:] if isinstance(value, list) else "",
)
async def test_a_draft_of_a_real_program_names_its_parameters_and_is_valid(
    program: list[str], wanted: list[str], expected: dict[str, set[str]], tmp_path: Path
) -> None:
    found, _ = await draft("x", [installed(program[0]), *program[1:]], wanted, tmp_path)
    config = CliConfig.model_validate(found)
    assert "reviewed" in config.description
    for tool, names in expected.items():
        assert names <= config.commands[tool].parameters.keys()


async def test_a_drafted_tool_can_be_called(open_sources: OpenSources, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"b": 1, "a": 2}')
    found, _ = await draft("json", [sys.executable, "-m", "json.tool"], [], tmp_path)
    async with open_sources({"json": found}) as app:
        result = await app.call("json.json.tool", infile="x.json", sort_keys=True, compact=True)
    assert result.text == '{"a":2,"b":1}'


async def test_a_program_without_help_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConnectionFailedError, match="nothing that can be read as help") as caught:
        await draft("x", [sys.executable, "-c", "pass"], [], tmp_path)
    assert "by hand" in (caught.value.hint or "")
    with pytest.raises(ConnectionFailedError, match="was not found"):
        await draft("x", ["no-such-program-here"], [], tmp_path)


async def test_a_subcommand_that_there_is_not_is_corrected(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="'chek' is not a subcommand") as caught:
        await draft("x", [installed("ruff")], ["chek"], tmp_path)
    assert "'check'" in (caught.value.hint or "")


async def test_a_draft_has_no_more_lines_than_somebody_can_review(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drafting, "MAX_PARAMETERS", 6)
    made, notes = await draft("json", [sys.executable, "-m", "json.tool"], (), tmp_path)
    assert list(made["commands"]["json.tool"]["parameters"])[:2] == ["infile", "outfile"]
    assert len(made["commands"]["json.tool"]["parameters"]) == 6
    assert notes[0].startswith("json.tool: only the first 6 of ")


async def test_what_cannot_be_taken_into_a_draft_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "tool"
    script.write_text(
        '#!/bin/sh\nif [ "$1" = --help ]; then\n'
        'printf "usage: tool COMMAND\\n\\nCommands:\\n  one    First\\n  two    Second\\n  six    Last\\n"\n'
        'elif [ "$1" = one ]; then echo "usage: tool one"; fi\n'
    )
    script.chmod(0o755)
    monkeypatch.setattr(drafting, "MAX_COMMANDS", 2)
    found: tuple[dict[str, Any], list[str]] = await draft("x", [str(script)], [], tmp_path)
    assert found[0]["commands"] == {"one": {"description": "First", "args": ["one"]}}
    assert found[1][0] == "only the first 2 of 3 subcommands were taken"
    assert found[1][1].startswith("two was left out")
