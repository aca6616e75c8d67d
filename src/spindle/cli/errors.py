"""Turns errors into the messages that users read and the exit codes that scripts test.

A mistake is one line on stderr, `spindle: what was wrong`, and a second one, `  hint: what to do`.
With `--json` the same is also printed as `{"error": {...}}` on stdout, so that a program that reads
stdout learns why. A traceback is shown only with `--debug`, or when SPINDLE_DEBUG is set.

Exit codes: 0 success; 1 the tool reported an error, or `doctor` found a problem; 2 to 14 as in the table;
70 a bug in Spindle; 75 a person must act first, such as log in, approve or trust the workspace; 130
cancelled; 141 the reader of stdout went away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from spindle.domain.nested_errors import innermost
from spindle.domain.visible import quoted
from spindle.errors import Interruption, SpindleError

if TYPE_CHECKING:
    from spindle.cli.context import CliContext
    from spindle.domain.call import ToolFailure

INTERNAL = 70
PAUSED = 75

EXIT_CODES: Mapping[str, int] = {
    "tool": 1,
    "usage": 2,
    "configuration": 2,
    "not_found": 3,
    "invalid_arguments": 4,
    "permission": 5,
    "auth": 5,
    "timeout": 6,
    "connection": 7,
    "in_doubt": 7,
    "rate_limited": 8,
    "server": 9,
    "error": 9,
    "client": 10,
    "flow": 12,
    "model": 13,
    "store": 11,
    "table": 14,
    "trust": PAUSED,
    "consent": PAUSED,
    "approval": PAUSED,
    "input": PAUSED,
    "wait": PAUSED,
    "cancelled": 130,
}


class UsageMistakeError(SpindleError):
    """The command line itself is wrong."""

    category = "usage"

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)


def exit_code(category: str) -> int:
    """The exit code of an error's category."""
    return EXIT_CODES.get(category, INTERNAL)


def report(error: BaseException, cli: CliContext, argv: Sequence[str]) -> int:
    """Shows an error to the user, and returns the exit code."""
    error = innermost(error)
    if isinstance(error, BrokenPipeError):
        raise error
    if cli.debug:
        import traceback

        cli.output.aside("".join(traceback.format_exception(error)).rstrip())
    if _is_cancellation(error):
        return _report_cancelled(cli)
    described = _describe(error)
    tell(cli, described)
    failure: ToolFailure | None = getattr(error, "failure", None)
    if failure is not None:
        show_failure(cli, failure, in_history=described["category"] != "flow")
        described["failure"] = failure.to_dict()
    if cli.output.as_json or _asks_for_json(argv):
        cli.output.json({"error": described})
    return exit_code(described["category"])


def tell(cli: CliContext, described: Mapping[str, Any]) -> None:
    """Prints an error's message and its hint. About a source, either may hold text of a server."""
    shown = quoted if "source" in described or "tool" in described else str
    cli.output.aside(f"spindle: {shown(described['message'])}")
    if "hint" in described:
        cli.output.aside(f"  hint: {shown(described['hint'])}")


def show_failure(cli: CliContext, failure: ToolFailure, *, in_history: bool = True) -> None:
    """Shows where a Python tool or node of the workspace failed."""
    if cli.debug:
        cli.output.aside(failure.traceback)
        return
    cli.output.aside(f'  File "{failure.file}", line {failure.line}, in {failure.function}')
    if failure.code:
        cli.output.aside(f"    {failure.code}")
    also = ", and so does `spindle history`" if in_history else ""
    cli.output.aside(f"  hint: --debug shows the whole traceback{also}")


def _is_cancellation(error: BaseException) -> bool:
    return isinstance(error, (KeyboardInterrupt, click.Abort)) or type(error).__name__ == "CancelledError"


def _report_cancelled(cli: CliContext) -> int:
    if cli.output.shows_progress:
        cli.output.aside("")  # the terminal has just shown ^C
    cli.output.aside("spindle: cancelled")
    described: dict[str, Any] = {"category": "cancelled", "message": "cancelled"}
    if cli.run_id is not None:
        described |= {"hint": f"`spindle resume {cli.run_id}` continues the run", "run_id": cli.run_id}
        cli.output.aside(f"  to continue: spindle resume {cli.run_id[:12]}")
    if cli.output.as_json:
        cli.output.json({"error": described})
    return 128 + cli.ended_by if cli.ended_by else 130


def _describe(error: BaseException) -> dict[str, Any]:
    if isinstance(error, SpindleError):
        return error.to_dict("shell")
    if isinstance(error, Interruption):
        return _describe_interruption(error)
    if isinstance(error, click.UsageError):
        path = error.ctx.command_path if error.ctx else "spindle"
        message = error.format_message().rstrip(".")
        hint = f"see `{path} --help`"
        return {"category": "usage", "message": message[0].lower() + message[1:], "hint": hint}
    if isinstance(error, click.ClickException):
        return {"category": "usage", "message": error.format_message()}
    if isinstance(error, OSError):
        place = f": {error.filename}" if error.filename else ""
        return {"category": "configuration", "message": f"{error.strerror or error}{place}"}
    return {
        "category": "internal",
        "message": f"a bug in Spindle: {type(error).__name__}: {error}",
        "hint": "--debug shows where; please report it",
    }


def _describe_interruption(pause: Interruption) -> dict[str, Any]:
    described: dict[str, Any] = {"category": pause.kind, "message": pause.message}
    if pause.kind == "consent":
        described["hint"] = f"run `spindle auth login {pause.source}`"
    found = {"source": pause.source, "tool": pause.tool, "details": pause.details or None}
    return described | {key: value for key, value in found.items() if value is not None}


def _asks_for_json(argv: Sequence[str]) -> bool:
    """True if the words have `--json`, for mistakes found before the options are parsed."""
    words = list(argv)
    return "--json" in (words[: words.index("--")] if "--" in words else words)
