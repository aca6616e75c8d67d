"""Drafts the settings of a program from its `--help`, for a person to review."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from spindle.cli.program_help.text import behind_dashes, clean, described, knows_dashes, parameters
from spindle.cli.program_help.usage import Subcommand, literals, subcommands, words_of
from spindle.errors import ConnectionFailedError, NotFoundError, did_you_mean
from spindle.sources.programs.environment import environment
from spindle.sources.programs.process import run

MAX_COMMANDS = 40
MAX_PARAMETERS = 1000
"""The parameters of all commands together, each of which is a line of the draft."""
SECONDS = 20.0
HELP_SIZE = 1024 * 1024
# For git: the word that ends options (`--` means paths to it), and the help that is no manual page.
_SEPARATORS = {"git": "--end-of-options"}
_REFUSED = re.compile(r"(?i)unrecognized|unknown|invalid choice|no such|is not a")
_SHORT_HELP = frozenset({"git"})

Choose = Callable[[Mapping[str, Subcommand]], Awaitable[Sequence[str]]]


async def draft(
    name: str, program: Sequence[str], wanted: Sequence[str], cwd: Path, choose: Choose | None = None
) -> tuple[dict[str, Any], list[str]]:
    """The settings of a source for the program, or for some of its subcommands; and notes for the user.
    `choose` is asked for the subcommands where none are named; without it all are taken."""
    notes: list[str] = []
    text = await _help(name, program, (), cwd)
    known = subcommands(text)
    if not wanted and not known:
        tool = _tool_name(program)
        commands = {tool: _command(text, program, (), described(text))}
    else:
        chosen = list(wanted or (await choose(known) if choose else known))
        if len(chosen) > MAX_COMMANDS:
            notes.append(f"only the first {MAX_COMMANDS} of {len(chosen)} subcommands were taken")
            chosen = chosen[:MAX_COMMANDS]
        places = asyncio.Semaphore(4)
        groups: list[str] = []

        async def one(word: str) -> dict[str, Any] | None:
            async with places:
                try:
                    help_text = await _help(name, program, (word,), cwd)
                except ConnectionFailedError as error:
                    if wanted:
                        raise
                    notes.append(f"{word} was left out: {error.message}")
                    return None
            if word not in known and _REFUSED.search(help_text[:300]):
                raise NotFoundError(
                    f"{word!r} is not a subcommand of {program[0]!r}",
                    hint=did_you_mean(word, known),
                )
            row = known.get(word, Subcommand(""))
            if help_text == text:
                return _listed(program, word, row)
            if not wanted and subcommands(help_text):
                groups.append(word)
                return None
            return _command(help_text, program, (word,), row.about or described(help_text))

        made = await asyncio.gather(*(one(word) for word in chosen))
        commands = {word: command for word, command in zip(chosen, made, strict=True) if command}
        if groups:
            example = " ".join([*program, groups[0]])
            notes.append(
                f"left out, as they have subcommands of their own: {', '.join(groups)}; "
                f"add one as a source of its own with `--cli -- {example}`"
            )
    _shorten(commands, notes)
    about = f"{' '.join(program)}, drafted from its help text: to be reviewed"
    return {"kind": "cli", "program": list(program), "description": about, "commands": commands}, notes


def _shorten(commands: dict[str, dict[str, Any]], notes: list[str]) -> None:
    """Leaves out parameters that are too many for anybody to review, from the end of each command."""
    room = MAX_PARAMETERS
    for tool, command in commands.items():
        found: dict[str, Any] = command.get("parameters", {})
        if len(found) > room:
            # Positional ones come first, and have places in the command's words.
            kept = max(room, sum("flag" not in made and "off" not in made for made in found.values()))
            notes.append(f"{tool}: only the first {kept} of {len(found)} parameters were taken")
            command["parameters"] = dict(list(found.items())[:kept])
        room = max(0, room - len(found))


def _listed(program: Sequence[str], word: str, row: Subcommand) -> dict[str, Any]:
    """A subcommand without its own help text: only the entry in the list is known."""
    command: dict[str, Any] = {"description": row.about} if row.about else {}
    found = words_of(row.words, [*program, word])
    return {**command, "args": [word]} | ({"parameters": found} if found else {})


def _command(text: str, program: Sequence[str], words: Sequence[str], description: str) -> dict[str, Any]:
    command: dict[str, Any] = {"description": description} if description else {}
    args = [*words, *literals(text, [*program, *words])]
    found = parameters(text, [*program, *args])
    alone = [name for name, made in found.items() if "position" in made]
    behind = [name for name in alone if name in behind_dashes(text, [*program, *args])]
    before = [name for name in alone if name not in behind]
    if behind and before:
        args += [*(f"{{{name}}}" for name in before), "--", *(f"{{{name}}}" for name in behind)]
        for name in alone:
            del found[name]["position"]
    if args:
        command["args"] = args
    if alone and not behind:
        separator = _SEPARATORS.get(Path(program[0]).name) or knows_dashes(text)
        if separator is not True:
            command["separator"] = separator
    return command | ({"parameters": found} if found else {})


async def _help(name: str, program: Sequence[str], words: Sequence[str], cwd: Path) -> str:
    own = Path(program[0]).name
    flags = ("-h", "--help") if own in _SHORT_HELP and words else ("--help", "-h")
    env = environment(
        {"COLUMNS": "160", "NO_COLOR": "1", "TERM": "dumb", "PAGER": "cat", "LC_ALL": "C.UTF-8"}
    )
    said = ""
    for flag in flags:
        vector = [*program, *words, flag]
        try:
            async with asyncio.timeout(SECONDS):
                done = await run(name, vector, env=env, cwd=cwd, stdin=None, limit=HELP_SIZE)
        except TimeoutError:
            continue
        said = clean((done.stdout if done.stdout.strip() else done.stderr).decode("utf-8", "replace"))
        if re.search(r"(?im)^\s*usage:", said):
            return said
    if re.search(r"(?m)^\s+-", said):
        return said
    raise ConnectionFailedError(
        f"`{' '.join([*program, *words])} --help` says nothing that can be read as help",
        hint="describe its commands by hand: see docs/how-to/command-line-programs.md",
    )


def _tool_name(program: Sequence[str]) -> str:
    """The name of the tool: json.tool for `python -m json.tool`, ls for `/usr/bin/ls`."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", Path(program[-1]).name).strip("-") or "run"
