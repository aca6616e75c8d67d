"""`spindle sync`: asks sources for their tools and shows what changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from spindle.cli.completion import complete_source
from spindle.cli.context import CliContext, command
from spindle.cli.output import plural
from spindle.cli.sync_report import as_json, print_report

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.catalog.diff import SyncReport
    from spindle.ports.source import Note

SHOWN_NOTES = 10


@command("sync")
@click.argument("names", nargs=-1, metavar="[SOURCE]…", shell_complete=complete_source)
@click.option(
    "--accept", multiple=True, metavar="TOOL", help="Trust this tool's held definition. Repeatable."
)
@click.option("--accept-all", is_flag=True, help="Trust every held definition of these sources.")
@click.option(
    "--verbose",
    is_flag=True,
    help="Show every note, such as about parts of a document that are not supported.",
)
async def sync(
    cli: CliContext, names: tuple[str, ...], accept: tuple[str, ...], accept_all: bool, verbose: bool
) -> int:
    """Ask all sources, or those named, for their tools.

    Shows which tools were added (+), removed (-) or changed (~), and which changes of pinned sources wait
    for your consent (!).
    """
    notes = _Notes(cli, None if verbose else SHOWN_NOTES)
    try:
        return await _sync(cli, names, accept, accept_all, notes)
    finally:
        notes.close()


class _Notes:
    """Shows the first few notes: a document of a thousand operations may cause a thousand."""

    def __init__(self, cli: CliContext, limit: int | None) -> None:
        self._cli = cli
        self._limit = limit
        self._count = 0

    def __call__(self, text: str) -> None:
        self._count += 1
        if self._limit is None or self._count <= self._limit:
            self._cli.output.note(text)

    def close(self) -> None:
        if self._limit is not None and self._count > self._limit:
            more = plural(self._count - self._limit, "more note")
            self._cli.output.note(f"{more}; `spindle sync --verbose` shows all")


async def _sync(
    cli: CliContext, names: tuple[str, ...], accept: tuple[str, ...], accept_all: bool, notes: Note
) -> int:
    async with cli.open(notes) as app:
        if not app.catalog.sources.names:
            cli.output.note("there are no sources yet; add one with `spindle add`")
        accepted = True if accept_all else await _full(app, accept)
        reports = await sync_and_print(cli, app, names, accepted)
        for index, report in enumerate(reports):
            if report.error and report.error["category"] == "consent":
                (reports[index],) = await _after_login(cli, app, report, accepted)
        if app.catalog.meaning is not None:
            await app.catalog.meaning.settled(
                lambda done, of: cli.output.status(f"learning what tools are about: {done} of {of} …")
            )
        known = {tool.name for tool in await app.tools()}
    from spindle.cli.errors import exit_code
    from spindle.errors import NotFoundError, did_you_mean

    failed = next((report.error for report in reports if report.error), None)
    if failed is not None:
        return exit_code(failed["category"])
    for name in accept:
        if name not in known and not any(full.endswith(f".{name}") for full in known):
            hint = did_you_mean(name, known, "`spindle sync` shows what is held")
            raise NotFoundError(f"there is no tool {name!r} to accept", hint=hint, tool=name)
    return 0


async def _after_login(
    cli: CliContext, app: Spindle, report: SyncReport, accept: Sequence[str] | bool
) -> list[SyncReport]:
    """Syncs a source again that the person at the terminal logs in to."""
    from spindle.cli.auth.here import log_in_here

    if not await log_in_here(cli, app, report.source):
        return [report]
    return await sync_and_print(cli, app, [report.source], accept)


async def sync_and_print(
    cli: CliContext, app: Spindle, names: Sequence[str] = (), accept: Sequence[str] | bool = ()
) -> list[SyncReport]:
    """Syncs these sources, or all, in parallel, and prints each report as it arrives."""
    import asyncio

    app.catalog.sources.validate()
    wanted = list(dict.fromkeys(names)) or app.catalog.sources.names
    for name in wanted:
        app.catalog.sources.table(name)
    waiting = set(wanted)
    reports: dict[str, SyncReport] = {}

    async def one(name: str) -> SyncReport:
        return (await app.sync(name, accept=accept))[0]

    def show_status() -> None:
        if waiting:
            cli.output.status(f"asking {', '.join(sorted(waiting))} …")

    show_status()
    for finished in asyncio.as_completed([one(name) for name in wanted]):
        report = await finished
        waiting.discard(report.source)
        reports[report.source] = report
        if not cli.output.as_json:
            print_report(cli, report)
        show_status()
    ordered = [reports[name] for name in wanted]
    if cli.output.as_json:
        cli.output.json([as_json(report) for report in ordered])
    return ordered


async def _full(app: Spindle, accept: tuple[str, ...]) -> list[str]:
    """Completes short names of tools from those that are held back."""
    held = [
        stored.name
        for source in app.catalog.sources.names
        for stored in await app.store.stored_tools(source)
        if stored.held
    ]
    full: list[str] = []
    for name in accept:
        matching = [known for known in held if known == name or known.endswith(f".{name}")]
        full += matching if len(matching) == 1 else [name]
    return full
