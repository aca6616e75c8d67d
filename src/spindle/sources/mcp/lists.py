"""Lists of a server, read page by page and item by item: one that is wrong costs itself and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from spindle.domain.json_schema import is_array, is_object
from spindle.domain.tool import Repaired, ToolSpec
from spindle.errors import ServerError
from spindle.giving_way import give_way
from spindle.mcp_protocol.headers import HeaderMap, repeated_arguments
from spindle.ports.list_budget import ListBudget, size_of
from spindle.sources.mcp.convert import first_problem, is_plain_tool, to_spec

if TYPE_CHECKING:
    from spindle.domain.json_schema import JsonObject
    from spindle.sources.mcp.config import McpConfig

LISTS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
"""By request, the name of the list in its result."""


class ToolPages:
    """The tools of a server, as its pages come in."""

    def __init__(self, name: str, config: McpConfig, place: str, *, is_modern: bool) -> None:
        self._name = name
        self._place = place
        self._is_modern = is_modern
        self._budget = ListBudget(name, config)
        self._names: set[str] = set()
        self.specs: list[ToolSpec] = []
        self.headers: dict[str, HeaderMap] = {}
        """By tool, the arguments that a call repeats as headers."""

    def take(self, page: JsonObject) -> None:
        """Reads a page. Raises ServerError for a list without an end, or of more than is allowed."""
        items: Any = page.get("tools")
        if not is_array(items):
            raise ServerError(
                f"{self._name!r} answered against the protocol: it gave no list of tools",
                hint="tell the author of the server",
            )
        rest = {key: value for key, value in page.items() if key != "tools"}
        self._budget.take(len(items), size_of(rest))
        for number, item in enumerate(items, len(self.specs) + 1):
            give_way()
            # Before it is made into objects, which take several times its room.
            self._budget.take(0, size_of(item))
            self.specs.append(self._spec(item, number))
        if (cursor := page.get("nextCursor")) is not None:
            self._budget.turn(cursor)

    def _spec(self, item: Any, number: int) -> ToolSpec:
        given: Any = item.get("name") if is_object(item) else None
        name = given if isinstance(given, str) else f"number {number}"
        item, faults = _with_schemas(item)
        try:
            tool = item if is_plain_tool(item) else _checked(item)
        except ValidationError as error:
            return _unusable(name, first_problem(error))
        except RecursionError:
            return _unusable(name, "its definition is nested too deeply")
        if name in self._names:
            return _unusable(name, "another tool of the same name came before it")
        self._names.add(name)
        if self._is_modern:
            try:
                self.headers[name] = repeated_arguments(tool.get("inputSchema"))
            except ValueError as error:
                return _unusable(name, f"it repeats arguments as headers in a wrong way: {error}")
        spec = to_spec(tool, self._place)
        if not faults:
            return spec
        return replace(spec, repaired=Repaired(spec.input_schema, spec.output_schema, faults))


def _with_schemas(item: Any) -> tuple[Any, tuple[str, ...]]:
    """The tool without what is no schema, and what that was."""
    if not is_object(item):
        return item, ()
    from spindle.schemas.repair import read_schemas

    arguments, result, faults = read_schemas(item.get("inputSchema"), item.get("outputSchema"))
    return {**item, "inputSchema": arguments, "outputSchema": result}, faults


def _checked(item: Any) -> JsonObject:
    """The definition of a tool that is not plainly one. Raises ValidationError if it is none."""
    from mcp_types import Tool

    from spindle.mcp_protocol.models import dumped

    return dumped(Tool.model_validate(item, by_name=False)) or {}


def _unusable(name: str, reason: str) -> ToolSpec:
    return ToolSpec(name, unusable=reason)
