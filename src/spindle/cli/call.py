"""`spindle call TOOL`: calls a tool with flags typed by its schema, or with JSON as a word or on stdin."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spindle.cli.completion import complete_tool
from spindle.cli.context import CliContext, command
from spindle.cli.later_options import with_later
from spindle.cli.loading import load
from spindle.cli.once import once_option
from spindle.cli.options import SECONDS
from spindle.cli.tape_options import tape_options
from spindle.cli.tool_completion import ToolCommand, complete_words

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.calls.words import Given
    from spindle.cli.call_trace import CallTrace
    from spindle.domain.call import Result
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.text_values import Parse
    from spindle.domain.tool import Tool
    from spindle.errors import AuthorizationRequired


@command("call", cls=ToolCommand, context_settings={"allow_interspersed_args": False})
@once_option
@tape_options
@click.option("--timeout", type=SECONDS, metavar="SECONDS", help="The time that one attempt may take.")
@click.option("--no-cache", is_flag=True, help="Do not answer from the cache.")
@click.option(
    "--save",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write images, audio and files of the result into this folder.",
)
@click.option(
    "--parse",
    type=click.Choice(["auto", "json", "text"]),
    help="Print a text that is JSON as its value: if it is an object or a list, or in any case.",
)
@click.option("--trace", is_flag=True, help="Show the path of the call and the time of each part.")
@click.option("-y", "--yes", is_flag=True, help="Approve what needs approval.")
@click.argument("tool", shell_complete=complete_tool)
@click.argument(
    "words",
    nargs=-1,
    type=click.UNPROCESSED,
    metavar="[--NAME=VALUE | NAME=VALUE | NAME:=JSON]… [JSON|-]",
    shell_complete=complete_words,
)
@click.pass_context
def call(ctx: click.Context, cli: CliContext, tool: str, words: tuple[str, ...], **options: Any) -> int:
    """Call a tool.

    \b
    spindle call fs.read_text path=notes.txt
    spindle call search --query "open issues" --tags a --tags b --no-archived
    spindle call chart data:='[1, 2, 3]' --save pictures
    spindle call --from "npx -y @modelcontextprotocol/server-everything" echo message=hi

    `spindle call TOOL --help` lists the tool's parameters. Give each as a flag or as NAME=VALUE, several
    times for an array, or as JSON with NAME:=JSON. All of them can also be one JSON object, as a word or on
    stdin (-).

    The options below may also follow TOOL, except --from, --env, --header, -w and those of a
    tape. After TOOL, a flag that the tool has too is the tool's.

    If a person must act first (consent, approval, an answer), you are asked on a terminal; otherwise the
    call pauses, stderr says what is needed, and `spindle resume` continues it.
    """
    return cli.run(_call(ctx, cli, tool, words, options))


async def _call(
    ctx: click.Context, cli: CliContext, name: str, words: tuple[str, ...], options: dict[str, Any]
) -> int:
    from spindle.cli.arguments import parse
    from spindle.cli.auth.here import or_log_in
    from spindle.cli.call_trace import CallTrace
    from spindle.errors import AuthorizationRequired

    trace = CallTrace()
    trace("open" if cli.once is None else "source")
    # A call needs typed settings, whatever the kind of its source; a listing does without.
    load("spindle.opening", "spindle.domain.source")
    async with cli.open() as app:
        trace("read")
        try:
            tool = await or_log_in(cli, app, lambda: app.show(name))
        except AuthorizationRequired as asked:
            return await _call_later(ctx, cli, app, name, words, options, asked)
        given = parse(tool.name, tool.input_schema, words, ctx.command)
        options = with_later(ctx, given.options, options, tool.name)
        if given.wants_help:
            _help(cli, tool)
            return 0
        arguments = await _arguments(tool, given)
        cli.output.status(f"calling {tool.name} …")
        try:
            return await _made(cli, app, tool, arguments, trace, options)
        finally:
            if options["trace"] and not trace.was_told:
                trace.print(cli.output, tool.name)


async def _call_later(
    ctx: click.Context,
    cli: CliContext,
    app: Spindle,
    name: str,
    words: tuple[str, ...],
    options: dict[str, Any],
    asked: AuthorizationRequired,
) -> int:
    """Keeps a call of a tool that is not known before its user has given a consent: the words are read when
    the run goes on."""
    from spindle.calls.options import CallOptions
    from spindle.cli.later_options import options_of
    from spindle.cli.outcome import conclude
    from spindle.cli.stdin import PATIENCE_WHEN_OPTIONAL, read_stdin

    if cli.once is not None or "--help" in words:
        raise asked
    if "-" in words or not words:
        piped = await read_stdin(None if words else PATIENCE_WHEN_OPTIONAL) or ""
        words = tuple(piped if word == "-" else word for word in words) or ((piped,) if piped.strip() else ())
    known = {name: not option.is_flag for name, option in options_of(ctx.command).items()}
    kept = {"tool": name, "arguments": {}, "words": list(words), "options": known}
    made = CallOptions(timeout=options["timeout"], use_cache=not options["no_cache"], keep_result=True)
    outcome = await app.runner.start("call", name, kept, made)
    return await conclude(cli, app, outcome, approve=options["yes"])


async def _made(
    cli: CliContext,
    app: Spindle,
    tool: Tool,
    arguments: JsonObject,
    trace: CallTrace,
    options: dict[str, Any],
) -> int:
    from spindle.calls.options import CallOptions
    from spindle.cli.outcome import conclude
    from spindle.cli.results import show_result
    from spindle.runs.outcomes import Paused

    async def show(_run: str, result: Result) -> None:
        trace("show")
        if options["parse"] is not None and not result.is_error:
            result = _with_value(result, tool, options["parse"])
        extra = trace.to_dict() if options["trace"] and cli.output.as_json else {}
        await show_result(cli, app, result, save=options["save"], name=tool.local_name, extra=extra)

    made = CallOptions(
        timeout=options["timeout"],
        on_progress=cli.progress_of(tool.name),
        use_cache=not options["no_cache"],
        on_stage=trace if options["trace"] else None,
        keep_result=True,
    )
    trace("start")
    outcome = await app.run(tool.name, arguments, made)
    trace("pause" if isinstance(outcome, Paused) else "show")
    return await conclude(cli, app, outcome, approve=options["yes"], show=show)


def _with_value(result: Result, tool: Tool, parse: Parse) -> Result:
    """Returns the result with the value of its text as structured data."""
    from spindle.domain.call import Result
    from spindle.errors import ServerError

    try:
        value = result.parsed(parse)
    except ValueError as error:
        raise ServerError(
            f"{tool.name} should return JSON, and returned other text: {error}",
            hint="--parse=auto takes a text that is not JSON as it is",
            tool=tool.name,
        ) from None
    return result if isinstance(value, str) else Result.of_value(value)


async def _arguments(tool: Tool, given: Given) -> JsonObject:
    from spindle.calls.flags import load_object
    from spindle.cli.stdin import PATIENCE_WHEN_NEEDED, PATIENCE_WHEN_OPTIONAL, read_stdin
    from spindle.domain.json_schema import parameters
    from spindle.errors import InvalidArgumentsError

    document = given.document
    where = "the argument"
    if document == "-":
        document, where = await read_stdin(None), "stdin"
        if not (document or "").strip():
            raise InvalidArgumentsError("there was nothing on stdin", hint="pipe a JSON object into it")
    elif not given.arguments and document is None:
        found = parameters(tool.input_schema)
        if found:
            needed = any(item.required for item in found)
            document = await read_stdin(PATIENCE_WHEN_NEEDED if needed else PATIENCE_WHEN_OPTIONAL)
            where = "stdin"
    if document is None or not document.strip():
        return given.arguments
    return {**load_object(document, where), **given.arguments}


def _help(cli: CliContext, tool: Tool) -> None:
    from spindle.cli.describe import print_usage

    if cli.output.as_json:
        cli.output.json(tool.to_dict())
    else:
        print_usage(cli.output, tool)
