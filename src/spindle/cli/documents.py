"""OpenAPI documents and UTCP manuals on the command line of `spindle add`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

_SUFFIXES = (".json", ".yaml", ".yml")
_MANUAL_PLACES = ("/utcp", "/utcp.json")
_MANUAL = re.compile(
    rb"[\"']?(?:utcp_version|tool_call_template|call_template_type|manual_call_templates)[\"']?\s*:"
)
_OPENAPI = re.compile(rb"(?:^|[{,\n])[ \t]*+[\"']?(?:openapi|swagger)[\"']?\s*:")
_HEAD = 64 * 1024

DocumentKind = Literal["openapi", "utcp"]


def document_in(
    words: Sequence[str], *, openapi: bool, utcp: bool = False
) -> tuple[DocumentKind, str] | None:
    """The document that `NAME PLACE` names, recognised by its name or content or because the user says so."""
    from spindle.cli.errors import UsageMistakeError

    if openapi and utcp:
        raise UsageMistakeError("--openapi and --utcp are two different things", "give one of them")
    said: DocumentKind | None = "openapi" if openapi else "utcp" if utcp else None
    if len(words) == 2:
        kind = said or _recognised(words[1])
        return (kind, words[1]) if kind else None
    if said:
        raise UsageMistakeError(
            "give a name and the document's URL or file", f"spindle add NAME {said}.json --{said}"
        )
    return None


def _recognised(place: str) -> DocumentKind | None:
    if place.lower().startswith(("ws://", "wss://")):
        return None
    if "://" in place:
        path = urlsplit(place).path.rstrip("/").lower()
        if path.endswith(_MANUAL_PLACES):
            return "utcp"
        return "openapi" if path.endswith(_SUFFIXES) else None
    if not place.lower().endswith(_SUFFIXES):
        return None
    try:
        with Path(place).expanduser().open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return "openapi"
    return "utcp" if _MANUAL.search(head) and not _OPENAPI.search(head) else "openapi"


def document_setting(document: str, root: Path, *, user: bool) -> str:
    """The document as written in the settings: a file of the workspace relative to it."""
    if "://" in document:
        return document
    path = Path(document).expanduser().resolve()
    inside = not user and path.is_relative_to(root.resolve())
    return str(path.relative_to(root.resolve()) if inside else path)
