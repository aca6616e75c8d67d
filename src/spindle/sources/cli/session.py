"""Calls the commands of a program."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.domain.call import Block, Call, Result
from spindle.domain.json_schema import from_json
from spindle.domain.tool import Tool, ToolSpec
from spindle.errors import NotFoundError, ServerError
from spindle.ports.source import Session
from spindle.remedies import Remedy
from spindle.sources.cli.words import stdin_of, words
from spindle.sources.programs.environment import environment
from spindle.sources.programs.presence import require_program
from spindle.sources.programs.process import ProcessResult, run

if TYPE_CHECKING:
    from spindle.domain.identity import Credential
    from spindle.sources.cli.config import CliConfig, Command


class CliSession(Session):
    """Runs every call as a process of its own; nothing is kept open."""

    def __init__(self, name: str, config: CliConfig, root: Path, credential: Credential) -> None:
        self._name = name
        self._config = config
        self._cwd = root / config.cwd if config.cwd else root
        self._declared = {**config.env, **dict(credential.env)}

    async def discover(self) -> list[ToolSpec]:
        return [
            command.spec(tool, f"sources.{self._name}.commands.{tool}", command.parameters, command.promised)
            for tool, command in self._config.commands.items()
        ]

    async def probe(self, tools: Sequence[Tool]) -> None:
        require_program(self._name, self._config.program[0], environment(self._declared), self._cwd)

    async def invoke(self, tool: Tool, call: Call) -> Result:
        command = self._config.commands.get(tool.spec.remote_name)
        if command is None:
            raise NotFoundError(f"{tool.name} is no longer defined", remedy=Remedy("sync"))
        finished = await run(
            self._name,
            [*self._config.program, *words(command, call.arguments)],
            env=environment(self._declared),
            cwd=self._cwd,
            stdin=stdin_of(command, call.arguments),
            limit=self._config.max_result_size,
        )
        if finished.exit_code not in command.exit_codes:
            return finished.failure(tool.name)
        return _result(tool, command, finished)


def _result(tool: Tool, command: Command, finished: ProcessResult) -> Result:
    try:
        text = finished.stdout.decode()
    except UnicodeDecodeError as error:
        if command.output != "text":
            raise _unreadable(tool, command, f"byte {error.start} is not UTF-8", finished) from None
        return Result((Block.of_bytes(finished.stdout),))
    match command.output:
        case "text":
            return Result.of_text(_without_newline(text))
        case "lines":
            return Result.of_value(_lines(text))
        case "json":
            return Result.of_value(_value(tool, command, text, finished), _without_newline(text))
        case "jsonl":
            lines = enumerate(_lines(text), 1)
            return Result.of_value(
                [_value(tool, command, line, finished, at) for at, line in lines if line.strip()]
            )


def _value(tool: Tool, command: Command, text: str, finished: ProcessResult, first_line: int = 1) -> Any:
    try:
        return from_json(text.encode())
    except json.JSONDecodeError as error:
        place = f"line {error.lineno + first_line - 1} column {error.colno}"
        reason = f"{error.msg} at {place}" if text.strip() else "it is empty"
        raise _unreadable(tool, command, reason, finished) from None


def _unreadable(tool: Tool, command: Command, reason: str, finished: ProcessResult) -> ServerError:
    said = finished.said
    return ServerError(
        f"the output of {tool.name} is not {command.output}, as its settings say: {reason}",
        hint=f'see its `output` in {tool.spec.place}; "text" takes anything',
        details={"stderr": said} if said else None,
    )


def _lines(text: str) -> list[str]:
    # Not splitlines(): form feeds and Unicode line separators do not end a line.
    return [line.removesuffix("\r") for line in _without_newline(text).split("\n")] if text else []


def _without_newline(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r")
