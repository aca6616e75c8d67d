"""`spindle doctor`: finds problems and says how to fix them. Changes nothing."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from spindle.cli.completion import complete_source
from spindle.cli.context import CliContext, command
from spindle.domain.visible import quoted

if TYPE_CHECKING:
    from spindle.cli.findings import DoctorFinding

_MARKS = {"ok": ("✓", "green"), "note": ("!", "yellow"), "problem": ("✗", "red")}


@command("doctor")
@click.argument("names", nargs=-1, metavar="[SOURCE]…", shell_complete=complete_source)
def doctor(cli: CliContext, names: tuple[str, ...]) -> int:
    """Find problems and how to fix them. Exits with 1 if there is one."""
    from spindle.cli.findings import examine

    problems = 0
    findings: list[DoctorFinding] = []

    def found(finding: DoctorFinding) -> None:
        nonlocal problems
        problems += finding.level == "problem"
        findings.append(finding)
        if not cli.output.as_json:
            _print(cli, finding)

    cli.run(examine(cli.load, names, found, cli.output.status))
    if cli.output.as_json:
        cli.output.json({"ok": not problems, "findings": [finding.to_dict() for finding in findings]})
    elif problems:
        cli.output.aside(f"{problems} problem{'s' if problems != 1 else ''} found")
    return 1 if problems else 0


def _print(cli: CliContext, finding: DoctorFinding) -> None:
    mark, colour = _MARKS[finding.level]
    if "utf" not in (sys.stderr.encoding or "").lower():
        mark = {"✓": "ok", "✗": "PROBLEM"}.get(mark, mark)
    subject = f"{finding.subject}: " if finding.subject else ""
    cli.output.painted_line(mark, colour, f"{subject}{quoted(finding.message)}")
    if finding.fix:
        cli.output.line(f"    fix: {quoted(finding.fix)}")
