"""`spindle table`: works with tables of tools in files."""

from __future__ import annotations

from spindle.cli.group import LazyGroup
from spindle.cli.options import shared_options

table = LazyGroup(
    "table",
    params=[*shared_options()],
    sections={
        "Tables": {
            "from": ("table.from_", "from_", "Write the tools of sources to a file."),
            "show": ("table.show", "show", "Show the tools in a file."),
            "prompt": ("table.prompt", "prompt", "Let a model work with the tools in a file."),
            "migrate": ("table.migrate", "migrate", "Bring a file of an older layout up to date."),
        },
    },
    help="Tools as tables: Parquet, Feather and Arrow files.",
)
