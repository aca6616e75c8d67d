"""The keys of a workflow in the file store of the software that runs it, as one field of a cell."""

from __future__ import annotations

import base64
from typing import Any

from spindle.domain.json_schema import from_json, is_array, to_json
from spindle.errors import TableError

SEPARATOR = ";"
_BINARY = "data:;base64,"
"""Begins a key that was given as bytes which are no text."""


def keys_of(value: Any) -> tuple[str, ...]:
    """The keys in a field: texts joined by `;`, as KNIME writes them, a JSON array, a list, or bytes."""
    if not value:
        return ()
    if is_array(value):
        return tuple(_text(item) for item in value if item is not None)
    text = _text(value)
    if text.startswith("["):
        return _listed(text)
    return (text,) if text.startswith(_BINARY) else tuple(text.split(SEPARATOR))


def text_of_keys(keys: tuple[str, ...]) -> str | None:
    """The keys joined by `;`, or a JSON array if a key would not survive that."""
    joined = SEPARATOR.join(keys)
    if joined and not joined.startswith("[") and keys_of(joined) == keys:
        return joined
    return to_json(keys).decode() if keys else None


def bytes_of_keys(keys: tuple[str, ...]) -> bytes | None:
    """The keys as the bytes that they were given as."""
    if len(keys) == 1 and keys[0].startswith(_BINARY):
        return base64.b64decode(keys[0].removeprefix(_BINARY))
    return SEPARATOR.join(keys).encode() if keys else None


def _text(value: Any) -> str:
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return _BINARY + base64.b64encode(value).decode()


def _listed(text: str) -> tuple[str, ...]:
    try:
        found = from_json(text.encode())
    except ValueError as error:
        raise TableError(f"its file-store keys (field 7) are not JSON: {error}") from None
    if is_array(found) and all(isinstance(item, str) for item in found):
        return tuple(found)
    raise TableError("its file-store keys (field 7) are JSON, but not an array of texts")
