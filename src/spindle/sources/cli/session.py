"""Calls the commands of a program."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.domain.call import Block, Call, Result
from spindle.domain.json_schema import from_json, to_json
from spindle.domain.tool import Tool, ToolSpec
from spindle.errors import NotFoundError, ServerError
from spindle.ports.source import Session
from spindle.sources.cli.words import stdin_of, words
from spindle.sources.parameters import input_schema
from spindle.sources.programs.environment import environment
from spindle.sources.programs.process import ProcessResult, run

if TYPE_CHECKING:
    from spindle.domain.identity import Credential
    from spindle.sources.cli.config import CliConfig, Command

STDERR_LINES = 20
STDERR_LINE_LENGTH = 500


class CliSession(Session):
    """Runs every call as a process of its own; nothing is kept open."""

    def __init__(self, name: str, config: CliConfig, root: Path, credential: Credential) -> None:
        self._name = name
        self._config = config
        self._cwd = root / config.cwd if config.cwd else root
        self._declared = {**config.env, **dict(credential.env)}

    async def discover(self) -> list[ToolSpec]:
        return [
            ToolSpec(
                remote_name=tool,
                description=command.description,
                title=command.title,
                input_schema=input_schema(command.parameters),
                output_schema=command.promised,
                hints=command.hints,
                tags=command.tags,
                place=f"sources.{self._name}.commands.{tool}",
            )
            for tool, command in self._config.commands.items()
        ]

    async def invoke(self, tool: Tool, call: Call) -> Result:
        command = self._config.commands.get(tool.spec.remote_name)
        if command is None:
            raise NotFoundError(f"{tool.name} is no longer defined", hint="run `spindle sync`")
        finished = await run(
            self._name,
            [*self._config.program, *words(command, call.arguments)],
            env=environment(self._declared),
            cwd=self._cwd,
            stdin=stdin_of(command, call.arguments),
            limit=self._config.max_result_size,
        )
        if finished.exit_code not in command.exit_codes:
            return _failure(tool, finished)
        return _result(tool, command, finished)


def _failure(tool: Tool, finished: ProcessResult) -> Result:
    """The result of a program that ran and reported a failure, which is an error of the tool itself."""
    said = _last_lines(finished.stderr) or _last_lines(finished.stdout)
    text = f"{tool.name} {finished.epitaph}" + (f":\n{said}" if said else "")
    return Result(
        (Block("text", text=text),),
        structured={
            "exit_code": finished.exit_code,
            "stderr": _last_lines(finished.stderr),
            "stdout": _last_lines(finished.stdout),
        },
        is_error=True,
        has_structured=True,
    )


def _result(tool: Tool, command: Command, finished: ProcessResult) -> Result:
    try:
        text = finished.stdout.decode()
    except UnicodeDecodeError as error:
        if command.output != "text":
            raise _unreadable(tool, command, f"byte {error.start} is not UTF-8", finished) from None
        data = base64.b64encode(finished.stdout).decode()
        size = len(finished.stdout)
        return Result((Block("resource", data=data, mime_type="application/octet-stream", size=size),))
    match command.output:
        case "text":
            return Result((Block("text", text=_without_newline(text)),))
        case "lines":
            return _structured(_lines(text))
        case "json":
            return _structured(_value(tool, command, text, finished), text)
        case "jsonl":
            lines = enumerate(_lines(text), 1)
            return _structured(
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
    said = _last_lines(finished.stderr)
    return ServerError(
        f"the output of {tool.name} is not {command.output}, as its settings say: {reason}",
        hint=f'see its `output` in {tool.spec.place}; "text" takes anything',
        details={"stderr": said} if said else None,
    )


def _structured(value: Any, text: str | None = None) -> Result:
    shown = to_json(value).decode() if text is None else _without_newline(text)
    return Result((Block("text", text=shown),), structured=value, has_structured=True)


def _lines(text: str) -> list[str]:
    # Not splitlines(): form feeds and Unicode line separators do not end a line.
    return [line.removesuffix("\r") for line in _without_newline(text).split("\n")] if text else []


def _without_newline(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r")


def _last_lines(data: bytes) -> str:
    lines = [line.rstrip() for line in data.decode("utf-8", "replace").split("\n")]
    kept = [line[-STDERR_LINE_LENGTH:] for line in lines if line][-STDERR_LINES:]
    return "\n".join(kept)
