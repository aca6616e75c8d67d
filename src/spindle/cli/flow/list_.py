"""`spindle flow list`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spindle.cli.context import CliContext, command

if TYPE_CHECKING:
    from spindle.domain.json_schema import JsonObject
    from spindle.flows.problems import BrokenFlowError
    from spindle.flows.text.files import Loaded


@command("list")
async def listing(cli: CliContext) -> None:
    """List the saved flows. For one whose file is broken, the problem is shown."""
    async with cli.open() as app:
        library = app.flows.library
        found = [(library.place(path), loaded) for path, loaded in library.all()]
        # Flows that are written in Python are tools like others, and known by where they are from.
        written = {place for place, _ in found}
        summaries = await app.tools(kind="flows")
        python = [await app.show(summary.name) for summary in summaries]
    entries = [_entry(place, loaded) for place, loaded in found]
    entries += [
        {"name": tool.name, "file": tool.spec.place, "description": tool.description, "nodes": None}
        for tool in python
        if tool.spec.place not in written
    ]
    if cli.output.as_json:
        cli.output.json(entries)
    elif not entries:
        cli.output.note('there are no saved flows yet; `spindle flow save NAME "a >> b"` saves one')
    else:
        rows = [
            (
                str(entry["name"]),
                str(entry["nodes"] or ""),
                str(entry["file"]),
                str(entry.get("error") or entry["description"]).split("\n", 1)[0],
            )
            for entry in entries
        ]
        cli.output.table(("FLOW", "NODES", "FILE", "WHAT IT DOES"), rows, drop=("NODES", "FILE"))


def _entry(place: str, loaded: Loaded | BrokenFlowError) -> JsonObject:
    from pathlib import Path

    from spindle.flows.text.files import Loaded

    if isinstance(loaded, Loaded):
        flow = loaded.definition
        return {
            "name": flow.name,
            "file": place,
            "description": flow.description,
            "nodes": len(flow.nodes),
            "inputs": dict(flow.inputs),
        }
    return {
        "name": Path(place).stem,
        "file": place,
        "description": "",
        "nodes": None,
        "error": f"broken: {loaded.message}",
    }
