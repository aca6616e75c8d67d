"""`spindle flow`: saved flows."""

from __future__ import annotations

from spindle.cli.group import LazyGroup
from spindle.cli.options import shared_options

flow = LazyGroup(
    "flow",
    sections={
        "Commands": {
            "save": ("flow.save", "save", "Save a line of tools, or a file, as a flow."),
            "list": ("flow.list_", "listing", "List the saved flows."),
            "show": ("flow.show", "show", "Show one: nodes, edges, inputs, outputs."),
            "check": ("flow.check", "check", "Find problems without running it."),
            "draw": ("flow.draw", "draw", "Draw one, as Mermaid or SVG."),
            "remove": ("flow.save", "remove", "Remove a saved flow."),
        }
    },
    params=shared_options(),
    help="Saved flows: the files in flows/.",
)
