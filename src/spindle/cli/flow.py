"""`spindle flow`: saved flows."""

from __future__ import annotations

from spindle.cli.group import LazyGroup
from spindle.cli.options import shared_options

flow = LazyGroup(
    "flow",
    sections={
        "Commands": {
            "save": ("flow_save", "save", "Save a line of tools, or a file, as a flow."),
            "list": ("flow_list", "listing", "List the saved flows."),
            "show": ("flow_show", "show", "Show one: nodes, edges, inputs, outputs."),
            "check": ("check", "check", "Find what is wrong without running it."),
            "draw": ("flow_draw", "draw", "Draw one, as Mermaid or SVG."),
            "remove": ("flow_save", "remove", "Remove a saved flow."),
        }
    },
    params=shared_options(),
    help="Saved flows: the files in flows/.",
)
