"""A small notebook, as tools: the model sees the docstrings and the types."""

import json
from pathlib import Path

from spindle import ToolError, tool

FILE = Path(__file__).parent.parent / "notes.json"


@tool
def add_note(text: str, tags: list[str] = []) -> str:  # noqa: B006 - never changed
    """Write a note down.

    Args:
        text: The note.
        tags: Words to sort it under.
    """
    notes = _read()
    number = max((note["number"] for note in notes), default=0) + 1
    _write([*notes, {"number": number, "text": text, "tags": tags}])
    return f"noted as {number}"


@tool(read_only=True)
def find_notes(word: str = "") -> list[dict[str, object]]:
    """Find notes by a word in their text or tags.

    Args:
        word: The word; all notes without it.
    """
    wanted = word.lower()
    return [note for note in _read() if wanted in f"{note['text']} {' '.join(note['tags'])}".lower()]


@tool(destructive=True)
def delete_note(number: int) -> str:
    """Delete a note for good.

    Args:
        number: The number of the note.
    """
    notes = _read()
    left = [note for note in notes if note["number"] != number]
    if len(left) == len(notes):
        raise ToolError(f"there is no note {number}")
    _write(left)
    return f"deleted note {number}"


def _read() -> list[dict]:
    return json.loads(FILE.read_text("utf-8")) if FILE.exists() else []


def _write(notes: list[dict]) -> None:
    FILE.write_text(json.dumps(notes, indent=2), "utf-8")
