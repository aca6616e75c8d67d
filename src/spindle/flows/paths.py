"""The paths that the result of a tool offers to templates, with the type and an example of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from spindle.domain.json_schema import JsonObject, is_array, is_object, parameters, type_of, types_of
from spindle.domain.records import set_fields
from spindle.flows.check.shapes import within
from spindle.flows.expressions.paths import Path, written_path

if TYPE_CHECKING:
    from spindle.domain.tool import Tool

MAX_PATHS: Final = 200
MAX_DEPTH: Final = 8
MAX_EXAMPLE: Final = 60
"""Characters of an example."""


@dataclass(frozen=True, slots=True)
class OfferedPath:
    """A place in the output of a node."""

    path: str
    type: str
    example: Any = None
    """A value that was found there; a long text is cut, and of lists and objects there is none."""

    def to_dict(self) -> JsonObject:
        """Returns it as JSON."""
        return set_fields(self)


def paths_of(value: Any, root: str) -> list[OfferedPath]:
    """Returns the paths of a result, below the id of the node that gave it. Of a list, those of its first
    item."""
    found: list[OfferedPath] = []
    for path, part in _walk(value, (root,)):
        if len(found) == MAX_PATHS:
            break
        is_plain = not is_object(part) and not is_array(part)
        example = part[: MAX_EXAMPLE - 1] + "…" if isinstance(part, str) and len(part) > MAX_EXAMPLE else part
        kind = f"list of {len(part)}" if is_array(part) else type_of(part)
        found.append(OfferedPath(written_path(path), kind, example if is_plain else None))
    return found


def _walk(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    yield path, value
    if len(path) > MAX_DEPTH:
        return
    if is_object(value):
        for key, item in value.items():
            yield from _walk(item, (*path, key))
    elif is_array(value) and value:
        yield from _walk(value[0], (*path, 0))


def promised_paths(tool: Tool, root: str) -> list[OfferedPath]:
    """Returns the paths that the tool's own schema promises; none if it says nothing."""
    schema = tool.output_schema
    if schema is None:
        return []
    return [
        OfferedPath(written_path(path), " or ".join(sorted(types_of(part, part))) or "any")
        for _, (path, part) in zip(range(MAX_PATHS), _walk_schema(schema, (root,)), strict=False)
    ]


def _walk_schema(schema: JsonObject, path: Path) -> Iterator[tuple[Path, JsonObject]]:
    yield path, schema
    if len(path) > MAX_DEPTH:
        return
    for item in parameters(schema):
        yield from _walk_schema(within(schema, item.schema), (*path, item.name))
    items = schema.get("items")
    if is_object(items):
        yield from _walk_schema(within(schema, items), (*path, 0))
