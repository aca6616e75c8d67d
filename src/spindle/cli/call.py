"""`spindle call TOOL`: calls a tool with flags typed by its schema, or with JSON as a word or on stdin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from spindle.cli.completion import complete_tool
from spindle.cli.context import CliContext, command
from spindle.cli.options import SECONDS

if TYPE_CHECKING:
    from spindle.cli.arguments import Given
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.tool import Tool


@command("call", context_settings={"allow_interspersed_args": False})
@click.option("--timeout", type=SECONDS, metavar="SECONDS", help="Time limit of one attempt.")
@click.option("--no-cache", is_flag=True, help="Do not answer from the cache.")
@click.option("-y", "--yes", is_flag=True, help="Approve what needs approval.")
@click.argument("tool", shell_complete=complete_tool)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[--PARAMETER=VALUE]… [JSON|-]")
def call(
    cli: CliContext, timeout: float | None, no_cache: bool, yes: bool, tool: str, words: tuple[str, ...]
) -> int:
    """Call a tool.

    Options of Spindle go before TOOL, the tool's parameters after it; `spindle call TOOL --help`
    lists them. Repeat a flag for an array, give an object as JSON, and a boolean as --x or --no-x.
    All arguments can also be one JSON object, as a word or on stdin (-).

    If a person must act first (consent, approval, an answer), you are asked on a terminal; otherwise the
    call pauses, stderr says what is needed, and `spindle resume` continues it.
    """
    return cli.run(_call(cli, tool, words, timeout, use_cache=not no_cache, yes=yes))


async def _call(
    cli: CliContext, name: str, words: tuple[str, ...], timeout: float | None, *, use_cache: bool, yes: bool
) -> int:
    from spindle.calls.caller import CallOptions
    from spindle.cli.arguments import parse
    from spindle.cli.outcome import conclude

    async with cli.open() as app:
        tool = await app.show(name)
        given = parse(tool.name, tool.input_schema, words)
        cli.output.as_json |= given.wants_json
        if given.wants_help:
            _help(cli, tool)
            return 0
        arguments = await _arguments(tool, given, any_words=bool(words))
        cli.output.status(f"calling {tool.name} …")
        options = CallOptions(timeout=timeout, on_progress=cli.progress_of(tool.name), use_cache=use_cache)
        return await conclude(cli, app, await app.run(tool.name, arguments, options), approve=yes)


async def _arguments(tool: Tool, given: Given, *, any_words: bool) -> JsonObject:
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
    elif not any_words or (given.wants_json and not given.arguments and document is None):
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
