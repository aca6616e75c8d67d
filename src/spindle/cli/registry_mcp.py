"""`spindle registry add-mcp`: `spindle add` in the words of pflow's registry."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from spindle.cli.context import CliContext, command


@command("add-mcp")
@click.option("--server", required=True, metavar="NAME", help="The name of the source.")
@click.option("--tool", "tools", multiple=True, metavar="NAME", help="Only this tool of it. Repeatable.")
@click.option("--command", "line", metavar="COMMAND", help="The command that starts the server, in one word.")
@click.option("--url", metavar="URL", help="Where the server is, if it is not started here.")
@click.option(
    "--transport", type=click.Choice(["auto", "stdio", "http", "sse"]), help="Detected if left out."
)
@click.option(
    "--env", multiple=True, metavar="KEY=VALUE", help="An environment variable of the program. Repeatable."
)
@click.option("--replace", is_flag=True, help="Replace the source that has this name.")
@click.option("--yes", is_flag=True, help="Ask nothing, and add it even if its program is not here.")
@click.pass_context
def add_mcp(
    ctx: click.Context,
    cli: CliContext,
    server: str,
    tools: tuple[str, ...],
    line: str | None,
    url: str | None,
    transport: str | None,
    env: tuple[str, ...],
    replace: bool,
    yes: bool,
) -> int:
    """Add an MCP server as a source: all its tools, or those that are named.

    \b
    spindle registry add-mcp --server github --command "mcp-github" --transport stdio
    spindle registry add-mcp --server github --tool search_code --command "mcp-github"

    Another --tool of a source that is there is added to those that it offers. `spindle add` has more options.
    """
    from spindle.cli.add import add
    from spindle.cli.errors import UsageMistakeError
    from spindle.cli.files import file_to_edit
    from spindle.cli.first_sync import finish

    if (line is None) == (url is None):
        raise UsageMistakeError(
            "give either --command or --url", f'spindle registry add-mcp --server {server} --command "…"'
        )
    program = _split(line) if line is not None else []
    file = file_to_edit(cli, user=False)
    known = _known(file, server)
    whole = url or line or ""
    if known is not None and tools and not replace and _is_same(known, program, url):
        _offer_more(server, known, tools, file)
        code = finish(cli, server, file, sync=True)
        return code or cli.run(_require(cli, server, tools, known, file, whole))
    words = [server, *([url] if url else [])]
    words += [f"--include={re.escape(name)}" for name in tools]
    words += [f"--env={pair}" for pair in env]
    words += [f"--transport={transport}"] if transport else []
    words += [flag for flag, is_given in (("--replace", replace), ("--yes", yes)) if is_given]
    with add.make_context("add-mcp", [*words, *(["--", *program] if program else [])], ctx) as inner:
        code = add.invoke(inner)
    return code or cli.run(_require(cli, server, tools, known, file, whole))


def _split(line: str) -> list[str]:
    from spindle.cli.errors import UsageMistakeError

    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageMistakeError(f"--command {line!r} cannot be read: {error}") from None
    if not words:
        raise UsageMistakeError("--command is empty", 'such as --command "npx -y @scope/server"')
    return words


def _is_same(known: dict[str, Any], program: list[str], url: str | None) -> bool:
    command = known.get("command", [])
    return (_split(command) if isinstance(command, str) else command) == program and known.get("url") == url


def _offer_more(server: str, known: dict[str, Any], tools: Sequence[str], file: Path) -> None:
    """Adds tools to those that a source offers."""
    from spindle.cli.files import check_source
    from spindle.settings.edit import add_source

    if "include" in known:  # else it offers all
        offered = [*known["include"], *(re.escape(name) for name in tools)]
        table = {**known, "include": list(dict.fromkeys(offered))}
        check_source(server, table, file)
        add_source(file, server, table, replace=True)


def _known(file: Path, server: str) -> dict[str, Any] | None:
    from spindle.domain.toml_text import read_toml

    try:
        return read_toml(file.read_text("utf-8")).get("sources", {}).get(server)
    except (OSError, ValueError):
        return None  # said when it is written


async def _require(
    cli: CliContext, server: str, tools: Sequence[str], before: dict[str, Any] | None, file: Path, whole: str
) -> int:
    """Refuses names of tools that the server does not have; the source is then as it was before."""
    from spindle.errors import NotFoundError
    from spindle.settings.edit import add_source, remove_source

    if not tools:
        return 0
    async with cli.open() as app:
        offered = [await app.show(tool.name) for tool in await app.tools(source=server)]
    there = {tool.spec.remote_name for tool in offered}
    missing = [name for name in tools if name not in there]
    if not missing:
        return 0
    if before is None:
        remove_source(file, server)
    else:
        add_source(file, server, before, replace=True)
    raise NotFoundError(
        f"{server} has no tool {missing[0]!r}, so nothing was added",
        hint=f"`spindle tools --from {shlex.quote(whole)}` lists what it has",
    )
