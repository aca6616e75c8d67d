"""OpenAPI documents on the command line of `spindle add`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

_SUFFIXES = (".json", ".yaml", ".yml")


def document_in(words: Sequence[str], *, openapi: bool) -> str | None:
    """The document that `NAME PLACE` names: by its ending, or because the user says so."""
    from spindle.cli.errors import UsageMistakeError

    if len(words) == 2 and (openapi or words[1].partition("?")[0].lower().endswith(_SUFFIXES)):
        return words[1]
    if openapi:
        raise UsageMistakeError(
            "give a name and the document's URL or file", "spindle add NAME openapi.json --openapi"
        )
    return None


def document_setting(document: str, root: Path, *, user: bool) -> str:
    """The way it is written to the settings: a file of the workspace relative to it."""
    if "://" in document:
        return document
    path = Path(document).expanduser().resolve()
    inside = not user and path.is_relative_to(root.resolve())
    return str(path.relative_to(root.resolve()) if inside else path)
