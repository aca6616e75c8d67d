"""`spindle resources`, `spindle read` and `spindle watch`: the resources of MCP servers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from spindle.cli.completion import complete_source
from spindle.cli.context import CliContext, command
from spindle.cli.options import SECONDS
from spindle.cli.tape_options import tape_options

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from spindle.domain.call import Block
    from spindle.domain.resource import ResourceChange


def whose(what: str) -> Callable[[Any], Any]:
    """The option that says which source is meant."""
    return click.option(
        "--source", shell_complete=complete_source, help=f"The source that has {what}, if several do."
    )


@command("resources")
@tape_options
@click.argument("source", required=False, shell_complete=complete_source)
async def resources(cli: CliContext, source: str | None) -> None:
    """List the resources of MCP servers: files, rows, pages and whatever else they let others read.

    An address with {places} is a template: fill them in to read one of many resources. All servers are
    started or reached for this, or only SOURCE.
    """
    async with cli.open() as app:
        cli.output.status(f"asking {source or 'the servers'} …")
        found = await app.resources(source)
    if cli.output.as_json:
        cli.output.json([item.to_dict() for item in found])
    elif not found:
        cli.output.note(f"{source or 'no source'} has {'no' if source else 'any'} resources")
    else:
        rows = [
            (item.uri, item.source, item.mime_type or "", item.description or item.title or item.name)
            for item in found
        ]
        cli.output.table(("RESOURCE", "SOURCE", "TYPE", "WHAT IT IS"), rows, drop=("TYPE", "SOURCE"))


@command("read")
@tape_options
@click.argument("uri")
@whose("the resource")
@click.option(
    "-o", "--output", "file", metavar="FILE", type=click.Path(dir_okay=False), help="Write it to this file."
)
async def read(cli: CliContext, uri: str, source: str | None, file: str | None) -> None:
    """Read a resource of an MCP server.

    Text is printed as it is; on a terminal, control characters are shown as escapes. Anything else goes into
    a file with --output, or into a pipe. A resource that is in no list is found with --source.
    """
    async with cli.open() as app:
        cli.output.status(f"reading {uri} …")
        result = await app.read(uri, source=source)
        if file is not None:
            _write(cli, uri, result.content, Path(file))
        elif cli.output.as_json:
            cli.output.json(result.to_dict())
        else:
            for block in result.content:
                _show(cli, uri, block)


def _show(cli: CliContext, uri: str, block: Block) -> None:
    from spindle.cli.errors import UsageMistakeError
    from spindle.cli.output import size

    if block.text is not None:
        is_whole = not cli.output.is_terminal or block.text.endswith("\n")
        cli.output.piece(block.text if is_whole else f"{block.text}\n")
    elif cli.output.is_terminal:
        data = _bytes(block)
        raise UsageMistakeError(
            f"{block.uri or uri} is not text, but {block.mime_type or 'data'} of {size(len(data))}",
            "write it to a file with `--output FILE`",
        )
    else:
        cli.output.raw(_bytes(block))


def _write(cli: CliContext, uri: str, blocks: tuple[Block, ...], file: Path) -> None:
    from spindle.cli.errors import UsageMistakeError
    from spindle.cli.output import size

    if len(blocks) != 1:
        raise UsageMistakeError(
            f"{uri} has {len(blocks)} contents, and one file holds one", "`--json` gives all of them"
        )
    data = _bytes(blocks[0])
    file.write_bytes(data)
    if cli.output.as_json:
        about = {"uri": blocks[0].uri or uri, "mime_type": blocks[0].mime_type, "size": len(data)}
        cli.output.json({"path": str(file), **about})
    else:
        cli.output.aside(f"wrote {size(len(data))} to {file}")


def _bytes(block: Block) -> bytes:
    import base64
    import binascii

    from spindle.errors import ServerError

    if block.text is not None:
        return block.text.encode()
    try:
        return base64.b64decode(block.data or "", validate=True)
    except binascii.Error:
        raise ServerError(f"the content of {block.uri} is not base64, as the protocol wants it") from None


@command("watch")
@click.argument("uri")
@whose("the resource")
@click.option("--count", metavar="N", type=click.IntRange(min=1), help="Stop after this many changes.")
@click.option("--timeout", metavar="SECONDS", type=SECONDS, help="Stop after this many seconds.")
async def watch(
    cli: CliContext, uri: str, source: str | None, count: int | None, timeout: float | None
) -> None:
    """Print a line each time a resource of an MCP server changes, until Ctrl-C.

    If the server is lost, it is reached or started again; as the resource may have changed meanwhile,
    that counts as a change.
    """
    import asyncio

    from spindle.errors import CallTimeoutError

    heard = 0
    async with cli.open() as app, app.watch(uri, source=source) as changes:
        cli.output.aside(f"watching {uri}")
        timer = asyncio.timeout(timeout)
        try:
            async with timer:
                async for change in changes:
                    _tell(cli, change)
                    heard += 1
                    if heard == count:
                        return
        except TimeoutError:
            if not timer.expired():
                raise
            if count is not None:
                raise CallTimeoutError(f"{heard} of {count} changes came within {timeout:g} s") from None


def _tell(cli: CliContext, change: ResourceChange) -> None:
    """Prints a change as one line, flushed at once: a program may be waiting at the other end of a pipe."""
    import time

    from spindle.domain.json_schema import to_json

    if cli.output.as_json:
        cli.output.line(to_json(change.to_dict()).decode())
    else:
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(change.at))
        cli.output.line(f"{at}\t{change.uri}")
    cli.output.flush()
