"""`spindle history`: lists calls, or shows one call in full."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from spindle.cli.completion import complete_call, complete_tool
from spindle.cli.context import CliContext, command
from spindle.cli.output import when
from spindle.remedies import reworded

if TYPE_CHECKING:
    from spindle.domain.json_schema import JsonObject


DROPPED = ("TOOK", "STARTED", "ERROR", "OUTCOME")
"""The columns that a narrow terminal can spare, in the order in which they go."""


@command("history")
@click.argument("key", required=False, shell_complete=complete_call)
@click.option("--tool", metavar="TOOL", shell_complete=complete_tool, help="Only calls of this tool.")
@click.option(
    "--outcome",
    metavar="OUTCOME",
    help="Only calls with this outcome: ok, cached, failed, or a kind of error such as timeout.",
)
@click.option(
    "--limit",
    metavar="COUNT",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="At most this many.",
)
def history(cli: CliContext, key: str | None, tool: str | None, outcome: str | None, limit: int) -> None:
    """List past calls, the newest first; with KEY, show all that is kept about that call.

    The beginning of KEY is enough. The result is kept for calls that were made with `spindle call`, without
    binary data and up to 4000 characters of each text.
    """
    cli.run(_one(cli, key) if key else _list(cli, tool, outcome, limit))


async def _list(cli: CliContext, tool: str | None, outcome: str | None, limit: int) -> None:
    async with cli.open() as app:
        records = await app.history(tool=tool, outcome=outcome, limit=limit)
    if cli.output.as_json:
        cli.output.json([record.to_dict() for record in records])
    elif not records:
        cli.output.note("there are no calls yet" if not (tool or outcome) else "no call fits")
    else:
        rows = [
            (
                record.key[:8],
                when(record.started_at),
                f"{record.duration:.2f} s",
                record.outcome,
                record.tool,
                (record.error or {}).get("message", ""),
            )
            for record in records
        ]
        cli.output.table(("KEY", "STARTED", "TOOK", "OUTCOME", "TOOL", "ERROR"), rows, drop=DROPPED)


async def _one(cli: CliContext, key: str) -> None:
    import json
    import time

    from spindle.errors import NotFoundError

    async with cli.open() as app:
        record = await app.store.call(key)
    if record is None:
        raise NotFoundError(f"there is no call {key!r}", hint="`spindle history` lists them")
    if cli.output.as_json:
        cli.output.json(record.to_dict())
        return
    problem = reworded(record.error or {}, "shell")
    failure = problem.pop("failure", None)
    facts = {
        "call": record.key,
        "tool": record.tool,
        "source": record.source,
        "principal": record.principal,
        "outcome": record.outcome,
        "started": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.started_at)),
        "took": f"{record.duration:.3f} s, {record.attempts} attempt{'s' if record.attempts != 1 else ''}",
        "made by": record.parent or "",
        "arguments": json.dumps(record.arguments, ensure_ascii=False, indent=2),
        "error": json.dumps(problem, ensure_ascii=False, indent=2) if problem else "",
        "traceback": f"\n{failure['traceback']}" if failure else "",
        "result": _result(record.result) if record.result else "",
    }
    for name, fact in facts.items():
        if fact:
            cli.output.line(f"{name + ':':<11}{fact}")


def _result(kept: JsonObject) -> str:
    """The result as far as it is kept."""
    import json

    lines: list[str] = []
    for block in kept["content"]:
        described = [
            block["type"],
            *(str(block[key]) for key in ("name", "mime_type", "path", "uri") if key in block),
        ]
        lines.append(block["text"] if block.get("text") else f"[{', '.join(described)}]")
    if kept["structured"] is not None and not any(block.get("text") for block in kept["content"]):
        lines.append(json.dumps(kept["structured"], ensure_ascii=False, indent=2))
    if kept.get("left_out"):
        lines.append(f"(not kept: {', '.join(kept['left_out'])})")
    return "\n".join(lines)
