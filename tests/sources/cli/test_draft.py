"""Drafts from real help texts: of programs that are here, and of the forms that others write."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from servers.running import OpenSources
from spindle.errors import ConnectionFailedError, NotFoundError
from spindle.sources.cli import draft as drafting
from spindle.sources.cli.config import CliConfig
from spindle.sources.cli.draft import draft
from spindle.sources.cli.help_text import clean, described, options, parameters, standing, subcommands, usage

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
    assert subcommands(COBRA) == {"start": "Start it", "stop": "Stop it"}
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
    assert subcommands(ARGPARSE) == {"get": "Read a value", "put": "Write a value"}
    assert standing(ARGPARSE, ["vault"]) == {}


def test_a_text_that_says_nothing_gives_nothing() -> None:
    assert (usage("hello"), options("hello"), subcommands("hello"), described("")) == ("", {}, {}, "")


def installed(name: str) -> str:
    return (
        shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name) or pytest.skip(name)
    )


@pytest.mark.parametrize(
    ("program", "wanted", "expected"),
    [
        (["git"], ["log", "commit"], {"log": {"quiet", "revision_range"}, "commit": {"message", "pathspec"}}),
        ([sys.executable, "-m", "json.tool"], [], {"json.tool": {"infile", "sort_keys", "indent"}}),
        (["ls"], [], {"ls": {"all", "file", "block_size"}}),
        (["tar"], [], {"tar": {"create", "file", "file_words"}}),
        (["npm"], ["install"], {"install": {"omit", "package_spec", "save_exact"}}),
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
