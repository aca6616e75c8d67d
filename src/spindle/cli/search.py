"""`spindle search WORDS…`: finds tools by words."""

from __future__ import annotations

import click

from spindle.cli.context import CliContext, command
from spindle.cli.once import once_option


@command("search")
@once_option
@click.argument("words", nargs=-1, required=True)
@click.option(
    "--limit",
    metavar="COUNT",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="At most this many.",
)
async def search(cli: CliContext, words: tuple[str, ...], limit: int) -> None:
    """Find tools by words in their names, descriptions and parameters, the best first."""
    from spindle.cli.tools import note_unsynced, print_tools

    query = " ".join(words)
    if (untrusted := cli.untrusted()) is not None:
        from spindle.cli.untrusted import stored

        async with stored(untrusted) as store:
            print_tools(cli, await store.search(query, limit))
        return
    async with cli.open() as app:
        found = await app.search(query, limit=limit)
        print_tools(cli, found)
        if not found:
            cli.output.note(f"no tool matches {query!r}")
        await note_unsynced(cli, app)
