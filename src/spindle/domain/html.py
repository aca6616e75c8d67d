"""The parts of views in HTML, for notebooks: escaped, nothing unseen, and bounded whatever they hold."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

from spindle.domain.json_schema import is_array, is_object
from spindle.domain.visible import visible

MAX_TEXT: Final = 20_000
MAX_CELL: Final = 300
MAX_ROWS: Final = 100
MAX_COLUMNS: Final = 30
MAX_TOOLS: Final = 500
MAX_BLOCKS: Final = 50
MAX_INLINE: Final = 4 * 1024 * 1024
"""Bytes of pictures and sound in one view. The rest is only described."""
_MEDIA: Final = frozenset({
    "image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp", "image/avif",
    "audio/mpeg", "audio/wav", "audio/x-wav", "audio/ogg", "audio/webm", "audio/mp4",
})  # fmt: skip


def value_html(value: Any) -> str:
    """Returns the view of data: a table for rows or for the fields of an object, else JSON."""
    if is_array(value) and value and all(is_object(item) for item in value):
        return _rows(value)
    if is_object(value) and value and not any(is_object(item) or is_array(item) for item in value.values()):
        fields = [(str(name), item) for name, item in list(value.items())[:MAX_ROWS]]
        shown = table_html(
            (), [(f"<strong>{cell_html(name)}</strong>", cell_html(item)) for name, item in fields]
        )
        return shown + more_html(len(value) - len(fields), "field")
    return text_html(value if isinstance(value, str) else _json(value, indent=2))


def media_html(
    mime_type: str | None, data: str | None, path: str | None, name: str, left: int
) -> tuple[str, int] | None:
    """Returns a picture or sound as an element, and its size in bytes; None if it is of another kind, not at
    hand, or larger than what is `left`."""
    if mime_type not in _MEDIA or (content := _content(data, path, left)) is None:
        return None
    source = f"data:{mime_type};base64,{base64.b64encode(content).decode()}"
    shown = escape(visible(name[:MAX_CELL]), quote=True)
    if mime_type.startswith("audio/"):
        return f'<audio controls src="{source}" title="{shown}"></audio>', len(content)
    return f'<img src="{source}" alt="{shown}" style="max-width: 100%">', len(content)


def described_html(parts: Iterable[str | None], uri: str | None) -> str:
    """Returns what is not shown in one line: its kind, name and size, and a link if it has an address."""
    shown = escape(visible(", ".join(part[:MAX_CELL] for part in parts if part)))
    return f"<div>[{shown}{_link(uri)}]</div>"


def error_html(view: str) -> str:
    """Returns the view of an error around that of what it says."""
    style = "border-left: 4px solid #c0392b; padding-left: 0.6em"
    return f'<div style="{style}"><strong>the tool reported an error</strong>{view}</div>'


def _content(data: str | None, path: str | None, left: int) -> bytes | None:
    if data is not None:
        if len(data) // 4 * 3 > left + 2:
            return None
        try:
            content = base64.b64decode(data, validate=True)
        except binascii.Error:
            return None
        return content if len(content) <= left else None
    if path is None:
        return None
    try:
        file = Path(path)
        return file.read_bytes() if file.stat().st_size <= left else None
    except OSError:
        return None


def _link(uri: str | None) -> str:
    if uri is None:
        return ""
    shown = escape(visible(uri[:MAX_CELL]), quote=True)
    if not uri.startswith(("https://", "http://")):
        return f", {shown}"
    return f', <a href="{escape(uri, quote=True)}" target="_blank" rel="noopener noreferrer">{shown}</a>'


def _rows(rows: Sequence[Any]) -> str:
    shown = rows[:MAX_ROWS]
    columns = list(dict.fromkeys(name for row in shown for name in row))
    kept = columns[:MAX_COLUMNS]
    cells = [[cell_html(row[name]) if name in row else "" for name in kept] for row in shown]
    table = table_html([cell_html(name) for name in kept], cells)
    return table + more_html(len(rows) - len(shown), "row") + more_html(len(columns) - len(kept), "column")


def table_html(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table of cells that are HTML already."""
    top = "".join(f'<th style="text-align: left">{cell}</th>' for cell in head)
    lines = ("".join(f'<td style="text-align: left">{cell}</td>' for cell in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table>{f'<thead><tr>{top}</tr></thead>' if head else ''}<tbody>{body}</tbody></table>"


def cell_html(value: Any) -> str:
    """Returns one value in a cell: text as it is, other data as JSON."""
    text = value if isinstance(value, str) else _json(value)
    return escape(visible(text if len(text) <= MAX_CELL else f"{text[:MAX_CELL]}…"))


def text_html(text: str) -> str:
    """Returns text as it is, with its line breaks."""
    cut = text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}\n… ({len(text):,} characters)"
    return f'<pre style="white-space: pre-wrap">{escape(visible(cut))}</pre>'


def _json(value: Any, indent: int | None = None) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, indent=indent, default=str)
    except RecursionError:
        return "(nested too deeply to be shown)"


def more_html(count: int, what: str) -> str:
    """Returns how many more there are than were shown; nothing if there are none."""
    return f"<div><em>… and {count:,} more {what}{'s' if count != 1 else ''}</em></div>" if count > 0 else ""
