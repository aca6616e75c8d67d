"""Other names for commands, as other programs call them."""

from __future__ import annotations

from spindle.cli.group import LazyGroup

mcp = LazyGroup(
    "mcp",
    sections={
        "Commands": {
            "add": ("add", "add", "Add a source."),
            "list": ("sources", "sources", "List the sources."),
            "sync": ("sync", "sync", "Ask sources for their tools."),
            "remove": ("remove", "remove", "Remove a source."),
        }
    },
    help="Other names for `spindle add`, `sources`, `sync` and `remove`.",
)
