"""Shows what a sync changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spindle.cli.output import plural
from spindle.domain.finding import serious_names

if TYPE_CHECKING:
    from spindle.catalog.diff import SyncReport
    from spindle.cli.context import CliContext
    from spindle.domain.json_schema import JsonObject

SHOWN = 20


def as_json(report: SyncReport) -> JsonObject:
    """Returns a report as JSON, with the hint of its error for a person at a shell."""
    from spindle.remedies import reworded

    told = report.to_dict()
    return {**told, "error": reworded(report.error, "shell")} if report.error else told


def print_report(cli: CliContext, report: SyncReport) -> None:
    """Prints what a sync changed."""
    from spindle.cli.errors import tell
    from spindle.remedies import reworded

    output = cli.output
    if report.error:
        told = reworded(report.error, "shell")
        message = told["message"]
        named = message if report.source in message else f"{report.source}: {message}"
        tell(cli, {**told, "message": named, "source": report.source})
        return
    counts = {
        "added": report.added,
        "removed": report.removed,
        "changed": report.changed,
        "held": report.held,
    }
    said = [f"{len(items)} {word}" for word, items in counts.items() if items] or ["no change"]
    output.line(
        f"{report.source}: {plural(report.tools, 'tool')}, {', '.join(said)} ({report.seconds:.1f} s)"
    )
    lines = [("+", "green", name, "") for name in report.added]
    lines += [("-", "red", name, "") for name in report.removed]
    lines += [("~", "yellow", change.name, ", ".join(change.fields)) for change in report.changed]
    lines += [("!", "red", change.name, f"held: {', '.join(change.fields)}") for change in report.held]
    shown = lines if len(lines) <= SHOWN + 1 else lines[:SHOWN]
    for mark, colour, name, detail in shown:
        output.painted_line(f"  {mark}", colour, f"{name}  ({detail})" if detail else name)
    if len(shown) < len(lines):
        output.line(f"  … and {len(lines) - len(shown)} more; `spindle tools --source {report.source}`")
    for line in report.complaints():
        output.note(f"{report.source}: {line}")
    if report.held:
        suspect = serious_names(report.findings)
        accept = f"accept with `spindle sync {report.source} --accept TOOL`"
        if all(change.name in suspect for change in report.held):
            output.note(f"what is held is used by nobody until you trust it: {accept}")
        else:
            output.note(f"{report.source} is pinned: {accept} or --accept-all")
