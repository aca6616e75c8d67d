"""`spindle sources`: lists the sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from spindle.cli.context import CliContext, command
from spindle.cli.output import when

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.ports.store import SourceState


@command("sources")
async def sources(cli: CliContext) -> None:
    """List the sources and their state. Contacts none of them."""
    async with cli.open() as app:
        stale = set(app.catalog.unsynced())
        states = await app.catalog.states()
        found = [_as_dict(app, state, state.name in stale) for state in states.values()]
        found += _disabled(app)
    if cli.output.as_json:
        cli.output.json(found)
        return
    rows = [
        (
            item["name"],
            item["kind"],
            str(item["tools"]),
            str(item["held"]),
            when(item["synced_at"]),
            f"failed: {item['error']}" if item["error"] else item["state"],
        )
        for item in found
    ]
    if rows:
        headings = ("SOURCE", "KIND", "TOOLS", "HELD", "SYNCED", "STATE")
        cli.output.table(headings, rows, drop=("HELD", "SYNCED", "KIND", "TOOLS"))
    else:
        cli.output.note("there are no sources yet; `spindle add --presets` shows some that are ready to use")


def _as_dict(app: Spindle, state: SourceState, stale: bool) -> dict[str, Any]:
    origins = app.settings.origins
    return {
        "name": state.name,
        "kind": state.kind,
        "state": _state(state, stale),
        "tools": state.tool_count,
        "held": state.held_count,
        "synced_at": state.synced_at,
        "error": state.error,
        "file": origins.get(state.name),
    }


def _state(state: SourceState, stale: bool) -> str:
    if state.error:
        return "failed"
    if state.synced_at is None:
        return "never synced"
    if state.held_count:
        return "has held definitions"
    return "changed since" if stale else "ok"


def _disabled(app: Spindle) -> list[dict[str, Any]]:
    written = cast("dict[str, dict[str, Any]]", app.settings.raw.get("sources", {}))
    return [
        {
            "name": name,
            "kind": table.get("kind", "mcp"),
            "state": "disabled",
            "tools": 0,
            "held": 0,
            "synced_at": None,
            "error": None,
            "file": app.settings.origins.get(name),
        }
        for name, table in written.items()
        if name not in app.settings.sources
    ]
