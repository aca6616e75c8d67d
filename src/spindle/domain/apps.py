"""Addresses of MCP Apps: pages that belong to tools, as `ui://` resources. Several sources may have the same
one, and programs that show them know them by this scheme alone: so each is offered as `ui://SOURCE/…`."""

from __future__ import annotations

from spindle.domain.json_schema import JsonObject, is_object

UI = "ui://"
EXTENSION = "io.modelcontextprotocol/ui"
MIME_TYPE = "text/html;profile=mcp-app"
_KEY, _FIELD, _OLD_KEY = "ui", "resourceUri", "ui/resourceUri"


def offered(source: str, uri: str) -> str:
    """The address under which a page of a source is offered; any other address as it is."""
    return f"{UI}{source}/{uri.removeprefix(UI)}" if uri.startswith(UI) else uri


def taken_back(uri: str) -> tuple[str, str] | None:
    """The source of a page that is offered, and its address there; None for any other address."""
    if not uri.startswith(UI):
        return None
    source, slash, rest = uri.removeprefix(UI).partition("/")
    return (source, f"{UI}{rest}") if slash else None


def with_pages(source: str, meta: JsonObject) -> JsonObject:
    """The `_meta` of a tool or a result, with the address of its page as it is offered."""
    changed = dict(meta)
    page, old = meta.get(_KEY), meta.get(_OLD_KEY)
    if is_object(page) and isinstance(address := page.get(_FIELD), str):
        changed[_KEY] = {**page, _FIELD: offered(source, address)}
    if isinstance(old, str):
        changed[_OLD_KEY] = offered(source, old)
    return changed
