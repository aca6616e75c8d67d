"""The limits within which a text from outside is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from spindle.domain.json_schema import is_array, is_object

if TYPE_CHECKING:
    from spindle.documents.places import DocumentPath

MAX_SIZE: Final = 32 * 1024 * 1024
"""Bytes. The largest public descriptions of APIs are a third of that."""

MAX_DEPTH: Final = 150
"""Levels of lists and objects. Real documents have up to 24; what walks them calls itself for each level, and
Python allows a thousand such calls."""

MAX_PARTS: Final = 2_000_000
"""Values, lists and objects. The largest public descriptions of APIs have a quarter of that; reading so many
takes some seconds, and some hundred megabytes."""

MAX_UNFOLDED: Final = 1_000_000
"""Parts that aliases and merges of YAML add, of 64 characters at most. Some programs write an alias for each
use of a schema, and each is written out in the schema of a tool."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits within which a text is read."""

    size: int = MAX_SIZE
    depth: int = MAX_DEPTH
    parts: int = MAX_PARTS
    unfolded: int = MAX_UNFOLDED

    @classmethod
    def of_size(cls, size: int) -> Bounds:
        """Returns the limits for documents that may have so many bytes. Who allows larger ones than usual
        allows as many more parts: one setting raises all that a large document needs."""
        return cls(
            size=size,
            parts=max(MAX_PARTS, MAX_PARTS * size // MAX_SIZE),
            unfolded=max(MAX_UNFOLDED, MAX_UNFOLDED * size // MAX_SIZE),
        )


DEFAULT_BOUNDS: Final = Bounds()


def too_deep(value: Any) -> DocumentPath | None:
    """Returns the first place that is deeper than `MAX_DEPTH`, or None."""
    if not _has_levels(value, MAX_DEPTH):
        return None
    waiting: list[tuple[Any, DocumentPath]] = [(value, ())]
    while waiting:
        node, path = waiting.pop()
        if len(path) > MAX_DEPTH:
            return path
        if is_object(node):
            waiting += [
                (item, (*path, key)) for key, item in node.items() if is_object(item) or is_array(item)
            ]
        elif is_array(node):
            waiting += [
                (item, (*path, index)) for index, item in enumerate(node) if is_object(item) or is_array(item)
            ]
    return None


def _has_levels(value: Any, most: int) -> bool:
    """True if objects and lists lie inside each other more than so many levels deep."""
    level: list[Any] = [value] if is_object(value) or is_array(value) else []
    for _ in range(most + 1):
        level = [
            item
            for node in level
            for item in (node.values() if is_object(node) else node)
            if is_object(item) or is_array(item)
        ]
        if not level:
            return False
    return True
