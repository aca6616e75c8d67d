"""`spindle show TOOL --paths`: what templates can take from the results of a tool."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.cli.context import CliContext
    from spindle.domain.tool import Tool

RUNS = 20
"""Runs of flows whose nodes are searched for a result."""
CALLS = 50


async def print_paths(cli: CliContext, app: Spindle, tool: Tool) -> None:
    """Prints the paths that the tool's last result on record offers, or else those that it promises."""
    from spindle.errors import NotFoundError
    from spindle.flows.interface import natural_key
    from spindle.flows.paths import paths_of, promised_paths

    node = natural_key(tool.name)
    value, of = await _recorded(app, tool)
    found = paths_of(value, node) if of is not None else promised_paths(tool, node)
    if not found:
        raise NotFoundError(
            f"no result of {tool.name} is on record, and the tool does not say what it returns",
            hint=f"call it once, and ask again: spindle call {tool.name} …",
            tool=tool.name,
        )
    if cli.output.as_json:
        cli.output.json({"tool": tool.name, "of": of or "schema", "paths": [one.to_dict() for one in found]})
        return
    rows = [
        (
            f"${{{one.path}}}",
            one.type,
            "" if one.example is None else json.dumps(one.example, ensure_ascii=False),
        )
        for one in found
    ]
    cli.output.table(("PATH", "TYPE", "EXAMPLE"), rows)
    cli.output.note(f"of {of}" if of is not None else "as the tool promises; it was not called yet")


async def _recorded(app: Spindle, tool: Tool) -> tuple[Any, str | None]:
    """Returns the value of the last result that is kept whole, and what it is of; None if there is none."""
    from spindle.domain.call import Result
    from spindle.flows.tool_node import seen_value

    parse = app.catalog.sources.config(tool.source).parse
    for record in await app.history(limit=CALLS, tool=tool.name):
        kept = record.result
        if kept is None or kept["is_error"] or "structured data" in kept.get("left_out", ()):
            continue
        try:
            return seen_value(Result.from_dict(kept), tool, parse), f"the call {record.key[:12]}"
        except ValueError:
            continue
    for run in await app.flows.runs(limit=RUNS):
        _, _, nodes = await app.flows.trace(run.id)
        for event in reversed(nodes):
            if event.tool == tool.name and event.output is not None and event.error is None:
                return event.output, f"node {event.node} of run {run.id[:12]}"
    return None, None
