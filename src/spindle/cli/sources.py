"""`spindle sources`: lists the sources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from spindle.cli.context import CliContext, command
from spindle.cli.output import when

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.ports.store import SourceState
    from spindle.settings import Settings


@command("sources")
async def sources(cli: CliContext) -> None:
    """List the sources and their state. Contacts none of them."""
    if (untrusted := cli.untrusted()) is not None:
        found = _listed(untrusted, untrusted.sources, "not trusted")
    else:
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
        "server": state.server,
        "error": state.error,
        "left_out": [item.to_dict() for item in state.left_out],
        "loosened": [item.to_dict() for item in state.loosened],
        "findings": [item.to_dict() for item in state.findings],
        "file": origins.get(state.name),
    }


def _state(state: SourceState, stale: bool) -> str:
    if state.error:
        return "failed"
    if state.synced_at is None:
        return "never synced"
    if state.held_count:
        return "has held definitions"
    if stale:
        return "changed since"
    if state.left_out:
        return f"left out {', '.join(item.name for item in state.left_out)}"
    if state.loosened:
        return f"loosened {', '.join(item.name for item in state.loosened)}"
    return "ok"


def _disabled(app: Spindle) -> list[dict[str, Any]]:
    written = cast("dict[str, dict[str, Any]]", app.settings.raw.get("sources", {}))
    off = {name: table for name, table in written.items() if name not in app.settings.sources}
    return _listed(app.settings, off, "disabled")


def _listed(settings: Settings, tables: Mapping[str, Mapping[str, Any]], state: str) -> list[dict[str, Any]]:
    """Sources of which only the settings are known."""
    return [
        {
            "name": name,
            "kind": str(table.get("kind", "mcp")),
            "state": state,
            "tools": 0,
            "held": 0,
            "synced_at": None,
            "server": None,
            "error": None,
            "left_out": [],
            "loosened": [],
            "findings": [],
            "file": settings.origins.get(name),
        }
        for name, table in tables.items()
    ]
