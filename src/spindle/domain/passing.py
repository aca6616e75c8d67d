"""The parts of MCP's `_meta` that pass through a workspace: all but what each program on the way says for
itself, and what only a workspace may say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spindle.domain.json_schema import JsonObject

_PROTOCOL = "io.modelcontextprotocol/"
_WORKSPACE = "io.spindle/"
"""Begins the keys of workspaces. One that came from elsewhere could forge a trail, an error or a pause."""
OF_ONE_HOP = frozenset(
    {
        "progressToken",
        *(
            _PROTOCOL + name
            for name in (
                "protocolVersion", "clientInfo", "clientCapabilities", "logLevel", "serverInfo",
                "subscriptionId", "related-task", "model-immediate-response",
            )
        ),
    }
)  # fmt: skip
"""Keys with which two neighbours speak of themselves, or of what only they know."""


def passed(meta: Mapping[str, Any] | None) -> JsonObject | None:
    """Returns what passes of a `_meta`; None where that is nothing."""
    if not meta:
        return None
    kept = {
        key: value for key, value in meta.items() if key not in OF_ONE_HOP and not key.startswith(_WORKSPACE)
    }
    return kept or None
