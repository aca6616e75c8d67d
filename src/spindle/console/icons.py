"""Icons, drawn as strokes on a grid of 16."""

from __future__ import annotations

from typing import Final

from markupsafe import Markup

_PATHS: Final = {
    "overview": "M2.5 2.5h4.5v6H2.5zM9 2.5h4.5v3H9zM9 7.5h4.5v6H9zM2.5 10.5H7v3H2.5z",
    "tools": "M9.8 2.6a3.3 3.3 0 0 0-3.6 4.5L2.6 10.7a1.6 1.6 0 0 0 2.3 2.3l3.7-3.6a3.3 3.3 0 0 0 4.4-3.7"
    "L11 7.6 8.6 7.2 8.2 4.8z",
    "sources": "M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.01M5 11h.01",
    "calls": "M2.5 4.5h11M2.5 8h11M2.5 11.5h7",
    "runs": "M4.5 3v10l8.5-5z",
    "waiting": "M5.5 2.5h5M5.5 13.5h5M6 2.5v2.5L8 8l2-3V2.5M6 13.5V11l2-3 2 3v2.5",
    "flows": "M2.5 3h4v3.5h-4zM9.5 9.5h4V13h-4zM6.5 4.7H11v4.8M4.5 6.5v5h5",
    "access": "M5.5 8a2.5 2.5 0 1 1 0-.01M8 8h5.5v2.5M11 8v2",
    "health": "M2 8.5h3l1.5-4 3 7 1.5-3h3",
    "search": "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.5 10.5l3 3",
    "plus": "M8 3v10M3 8h10",
    "copy": "M5.5 5.5h8v8h-8zM3.5 10.5h-1v-8h8v1",
    "check": "M3 8.5l3.2 3.2L13 5",
    "cross": "M4 4l8 8M12 4l-8 8",
    "refresh": "M13 8a5 5 0 1 1-1.6-3.7M13 2.5V5h-2.5",
    "link": "M9.5 2.5h4v4M13.5 2.5L7.5 8.5M6.5 3.5h-4v10h10v-4",
    "warn": "M8 2.5l6 11H2zM8 6.5v3.2M8 11.6h.01",
    "theme": "M8 2.5a5.5 5.5 0 1 0 0 11zM8 2.5a5.5 5.5 0 0 1 0 11",
    "out": "M6.5 13.5h-4v-11h4M10 5l3 3-3 3M13 8H6",
    "right": "M6 3.5L10.5 8 6 12.5",
    "left": "M10 3.5L5.5 8l4.5 4.5",
    "file": "M4 2.5h5l3 3v8H4zM9 2.5v3h3",
    "help": "M6 6a2 2 0 1 1 2.6 1.9c-.4.2-.6.5-.6 1v.6M8 11.8h.01M14 8A6 6 0 1 1 2 8a6 6 0 0 1 12 0z",
}
NAMES: Final = tuple(_PATHS)


def icon(name: str, label: str = "") -> Markup:
    """Returns an icon. With a label it says something; without, words beside it do."""
    said = Markup('role="img" aria-label="{}"').format(label) if label else Markup('aria-hidden="true"')
    return Markup(
        '<svg class="icon" viewBox="0 0 16 16" width="16" height="16" {}><path d="{}"/></svg>'
    ).format(said, _PATHS[name])
