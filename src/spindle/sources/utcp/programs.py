"""Running the commands of a cli template, one after the other."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from spindle.domain.call import Block, Result
from spindle.domain.json_schema import JsonObject, from_json
from spindle.errors import ConfigurationError, InvalidArgumentsError
from spindle.sources.parameters import as_text
from spindle.sources.programs.environment import BASE_ENVIRONMENT, PROXIES, environment
from spindle.sources.programs.presence import require_program
from spindle.sources.programs.process import ProcessResult, run
from spindle.sources.utcp.commands import (
    ArgumentPiece,
    CommandWord,
    NeedsShellError,
    Piece,
    Variable,
    words_of,
)

if TYPE_CHECKING:
    from spindle.sources.utcp.templates import CliTemplate


FindVariable = Callable[[str], str | None]


@dataclass(slots=True)
class ProgramRun:
    """The state of one call while its commands run."""

    arguments: JsonObject
    find: FindVariable
    env: dict[str, str]
    cwd: Path
    outputs: list[str] = field(default_factory=list[str])


def environment_for(template: CliTemplate, declared: JsonObject) -> dict[str, str]:
    """The environment of the programs: the harmless variables or those that the template names, then the
    declared ones."""
    if template.inherit_env_vars is None:
        base = environment({})
    else:
        base = {name: os.environ[name] for name in template.inherit_env_vars if name in os.environ}
    return {**base, **declared, **template.env_vars}


def unshared_variables(template: CliTemplate) -> list[str]:
    """Variables of our environment that a template asks for and that are not for everybody."""
    asked = template.inherit_env_vars or ()
    return [name for name in asked if name not in BASE_ENVIRONMENT and name.lower() not in PROXIES]


async def run_commands(
    name: str,
    tool: str,
    template: CliTemplate,
    arguments: JsonObject,
    *,
    find: FindVariable,
    root: Path,
    declared: JsonObject,
    limit: int,
) -> Result:
    """Runs the commands of a template one after the other."""
    cwd = root / template.working_dir if template.working_dir else root
    running = ProgramRun(arguments, find, environment_for(template, declared), cwd)
    finished: bytes | None = None
    for number, step in enumerate(template.commands, 1):
        try:
            words = words_of(step.command)
        except NeedsShellError as problem:
            raise ConfigurationError(
                f"command {number} of {tool} cannot be run: {problem}", sent=False
            ) from None
        program = words[0].literal
        if program == "cd":
            folder = running.cwd / _text(words[1], running)
            if not folder.is_dir():
                refused = ProcessResult(1, b"", f"cd: there is no folder {folder}".encode())
                return refused.failure(f"command {number} of {tool}", command=number)
            running.cwd = folder
            finished = b""
        elif program == "echo":
            finished = _echo(words[1:], running)
        else:
            vector = vector_of(words, running)
            done = await run(name, vector, env=running.env, cwd=running.cwd, stdin=None, limit=limit)
            if done.exit_code != 0:
                return done.failure(f"command {number} of {tool}", command=number)
            finished = done.stdout
        running.outputs.append(finished.decode("utf-8", "replace").rstrip("\n"))
    shown = [
        output
        for number, (step, output) in enumerate(zip(template.commands, running.outputs, strict=True), 1)
        if (
            number == len(template.commands)
            if step.append_to_final_output is None
            else step.append_to_final_output
        )
    ]
    return _result(shown, finished or b"", only=len(template.commands) == 1)


def require_programs(name: str, template: CliTemplate, root: Path, declared: JsonObject) -> None:
    """Raises a SpindleError if a program of a template cannot be started. Nothing is run."""
    cwd = root / template.working_dir if template.working_dir else root
    env = environment_for(template, declared)
    for number, step in enumerate(template.commands, 1):
        try:
            program = words_of(step.command)[0].literal
        except NeedsShellError as problem:
            raise ConfigurationError(f"command {number} cannot be run: {problem}", sent=False) from None
        if program == "cd":
            return  # the folder may depend on arguments, and what follows on the folder
        if program and program != "echo":
            require_program(name, program, env, cwd)


def vector_of(words: Sequence[CommandWord], running: ProgramRun) -> list[str]:
    """The words of a command line. Nothing that is filled in can become an option, or several words."""
    vector: list[str] = []
    ended = False
    for word in words:
        text = _text(word, running)
        if "\0" in text:
            raise InvalidArgumentsError("a zero byte cannot be passed to a program", sent=False)
        if not word.is_literal and not word.start and not ended and text.startswith("-"):
            names = ", ".join(piece.name for piece in word.pieces if not isinstance(piece, str))
            raise InvalidArgumentsError(
                f"{names}: {text[:80]!r} begins with a dash, where the program may take it for an option",
                hint="a path can be written as ./-name",
                details=[{"path": names, "problem": "begins with a dash"}],
                sent=False,
            )
        ended = ended or word.literal == "--"
        vector.append(text)
    return vector


def _text(word: CommandWord, running: ProgramRun) -> str:
    return "".join(_piece(piece, running) for piece in word.pieces)


def _piece(piece: Piece, running: ProgramRun) -> str:
    if isinstance(piece, str):
        return piece
    if isinstance(piece, ArgumentPiece):
        value = running.arguments.get(piece.name)
        if value is None:
            raise InvalidArgumentsError(
                f"{piece.name} is missing: the command needs it",
                details=[{"path": piece.name, "problem": "is required"}],
                sent=False,
            )
        return as_text(value)
    return _variable(piece, running)


def _variable(piece: Variable, running: ProgramRun) -> str:
    number = piece.output_of
    if number is not None:
        return running.outputs[number]
    found = running.find(piece.name)
    if found is None:
        found = running.env.get(piece.name)
    if found is None:
        raise ConfigurationError(
            f"the command uses ${piece.name}, which is not set",
            hint="set it in the source's `variables` or `env`",
            sent=False,
        )
    return found


def _echo(words: Sequence[CommandWord], running: ProgramRun) -> bytes:
    """Works like bash's own echo, but never reads options in filled-in values."""
    plain = bool(words) and words[0].literal == "-n"
    text = " ".join(_text(word, running) for word in (words[1:] if plain else words))
    return text.encode("utf-8", "surrogatepass") if plain else f"{text}\n".encode("utf-8", "surrogatepass")


def _result(shown: list[str], last: bytes, *, only: bool) -> Result:
    if only:
        try:
            last.decode()
        except UnicodeDecodeError:
            return Result((Block.of_bytes(last),))
    text = "\n".join(shown).strip()
    # UTCP says so: what looks like JSON and is JSON is taken for it.
    if text.startswith(("{", "[")):
        try:
            return Result.of_value(from_json(text.encode()), text)
        except ValueError:
            pass
    return Result.of_text(text)
