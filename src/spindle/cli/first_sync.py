"""The end of `spindle add`: the source is asked for its tools, and the user is told how that went."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from spindle.errors import SpindleError

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.catalog.diff import SyncReport
    from spindle.cli.context import CliContext


def finish(cli: CliContext, name: str, file: Path, *, sync: bool, url: str | None = None) -> int:
    """Says that a source was added, and asks it for its tools. Returns the exit code. `url`: one that was
    taken for an MCP server because the user did not say what it is."""
    if sync:
        if not cli.output.as_json:
            cli.output.line(f"added {name} to {file}")
        return cli.run(_first_sync(cli, name, file, url))
    if cli.output.as_json:
        cli.output.json({"source": name, "file": str(file), "sync": None})
    else:
        cli.output.line(f"added {name} to {file}")
    return 0


async def _first_sync(cli: CliContext, name: str, file: Path, url: str | None) -> int:
    from spindle.cli.errors import exit_code
    from spindle.cli.sync_report import print_report

    cli.output.status(f"asking {name} for its tools …")
    try:
        async with cli.open() as app:
            report = (await app.sync(name))[0]
            wants_oauth = await _wants_oauth(app, name, report)
    except SpindleError:
        cli.output.note(f"{name} was added to {file} anyway")
        raise
    if cli.output.as_json:
        cli.output.json({"source": name, "file": str(file), "sync": report.to_dict()})
    else:
        print_report(cli, report)
    if report.error is None:
        return 0
    if wants_oauth:
        from spindle.cli.auth.login import write_oauth

        write_oauth(cli, name, file)
    if wants_oauth or report.error["category"] == "consent":
        cli.output.note(f"now run `spindle auth login {name}`, which also fetches its tools")
        return exit_code("consent")
    cli.output.note(f"{name} stays in {file}; after fixing it run `spindle sync {name}`")
    if url and report.error["category"] in ("server", "client", "not_found"):
        again = f"spindle add {name} {url} --http --replace"
        cli.output.note(f"it was taken for an MCP server; if it is another HTTP API: {again}")
    return exit_code(report.error["category"])


async def _wants_oauth(app: Spindle, name: str, report: SyncReport) -> bool:
    if report.error is None or report.error.get("status") != 401:
        return False
    if app.catalog.sources.config(name).auth is not None:
        return False
    try:
        return await app.auth.wants_oauth(name)
    except SpindleError:
        return False  # the sync's own message is enough
