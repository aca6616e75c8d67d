"""Flows as JSON or YAML of one shape, read with the place of every mistake, and written again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spindle.documents import text as document_text
from spindle.documents.places import TextError
from spindle.documents.text import Format
from spindle.flows.definition import FlowDefinition
from spindle.flows.problems import NOWHERE, BrokenFlowError, Positions, Problem
from spindle.flows.text.document import from_document
from spindle.flows.text.writing import to_document

FORMATS: Final[dict[str, Format]] = {".json": "json", ".yaml": "yaml", ".yml": "yaml"}
"""By the ending of a file's name."""

MAX_SIZE: Final = 1024 * 1024
_BOUNDS: Final = document_text.Bounds(size=MAX_SIZE, unfolded=100_000)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A flow, and the places of its parts in the text that it was read from."""

    definition: FlowDefinition
    positions: Positions = NOWHERE
    place: str = ""


def read(text: str, format: Format, place: str = "") -> Loaded:
    """Reads a flow from text. Raises BrokenFlowError with the place and line of every mistake."""
    if len(text) > MAX_SIZE:
        raise _broken(f"longer than {MAX_SIZE} characters, the limit for a flow", place)
    try:
        found = document_text.read(text, format, _BOUNDS)
    except TextError as error:
        raise _unreadable(error, place) from None
    positions = Positions(found.find_marks)
    return Loaded(from_document(found.value, positions, place), positions, place)


def read_file(path: Path, place: str | None = None) -> Loaded:
    """Reads a flow from a file. `place` is its name in messages. Raises BrokenFlowError."""
    place = place if place is not None else str(path)
    format = FORMATS.get(path.suffix.lower())
    if format is None:
        raise _broken("a flow's file ends in " + ", ".join(FORMATS), place)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_SIZE + 1)
    except OSError as error:
        raise _broken(f"cannot be read: {error.strerror or error}", place) from None
    if len(data) > MAX_SIZE:
        raise _broken(f"larger than {MAX_SIZE} bytes, the limit for a flow", place)
    try:
        text = document_text.decode(data)
    except TextError as error:
        raise _unreadable(error, place) from None
    return read(text, format, place)


def write(definition: FlowDefinition, format: Format = "json") -> str:
    """Returns the text from which `read` makes the same definition."""
    document = to_document(definition)
    if format == "json":
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    from spindle.documents import yaml_writing

    return yaml_writing.write(document)


def _broken(message: str, place: str) -> BrokenFlowError:
    return BrokenFlowError([Problem("error", message, None, place)])


def _unreadable(error: TextError, place: str) -> BrokenFlowError:
    return BrokenFlowError([Problem("error", error.problem, error.hint, place, error.line)])
