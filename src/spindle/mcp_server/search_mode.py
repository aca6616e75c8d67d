"""A large catalog as three tools, so that a model's context stays small."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from spindle.domain.json_schema import JsonObject, to_json
from spindle.domain.tool import Hints, Tool, ToolSpec
from spindle.errors import NotFoundError, did_you_mean
from spindle.mcp_server.convert import text_result

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.domain.identity import Principal
    from spindle.domain.tool import ToolSummary
    from spindle.mcp_server.listing import Listing
    from spindle.serving.access import ServingAccess

SEARCH, DESCRIBE, CALL = "search_tools", "describe_tool", "call_tool"
MOST_FOUND = 50

_NAME = {"type": "string", "description": "the tool's name, as search_tools gives it"}


def _tool(name: str, title: str, description: str, properties: JsonObject, **spec: Any) -> Tool:
    schema: JsonObject = {"type": "object", "properties": properties, "additionalProperties": False}
    schema["required"] = [key for key, value in properties.items() if "default" not in value]
    made = ToolSpec(name, description, schema, title=title, **spec)
    return Tool(name, "", "serve", made, made.fingerprint)


TOOLS: Mapping[str, Tool] = {
    SEARCH: _tool(
        SEARCH,
        "Search tools",
        "Find tools by words about what they do. Then see their parameters with describe_tool.",
        {
            "query": {"type": "string", "minLength": 1, "description": "what the tool should do"},
            "limit": {"type": "integer", "minimum": 1, "maximum": MOST_FOUND, "default": 10},
        },
        hints=Hints(read_only=True),
        output_schema={
            "type": "object",
            "properties": {
                "tools": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {"name": {"type": "string"}, "description": {"type": "string"}},
                        "required": ["name", "description"],
                    },
                }
            },
            "required": ["tools"],
        },
    ),
    DESCRIBE: _tool(
        DESCRIBE,
        "Describe a tool",
        "A tool's whole description and the JSON Schema of its arguments.",
        {"name": _NAME},
        hints=Hints(read_only=True),
    ),
    CALL: _tool(
        CALL,
        "Call a tool",
        "Call a tool with arguments that fit the schema which describe_tool gives.",
        {"name": _NAME, "arguments": {"type": "object", "default": {}}},
    ),
}


class SearchMode:
    """Offers a large catalog as three tools: search, describe and call."""

    def __init__(self, app: Spindle, listing: Listing, access: ServingAccess) -> None:
        self._app = app
        self._listing = listing
        self._access = access

    async def search(self, principal: Principal, arguments: Mapping[str, Any]) -> JsonObject:
        limit = int(arguments.get("limit", 10))
        found = [
            {"name": await self._listing.served_name(tool.name), "description": tool.headline}
            for tool in await self.visible(principal, str(arguments["query"]), limit)
        ]
        lines = [f"{tool['name']}: {tool['description']}" for tool in found]
        return text_result("\n".join(lines) or "no tool matches; try other words", {"tools": found})

    async def visible(self, principal: Principal, query: str, limit: int) -> list[ToolSummary]:
        """The best that this principal sees: those it does not see must not take the places."""
        asked, sees = limit, await self._listing.sees(principal)
        while True:
            found = await self._app.search(query, limit=asked)
            seen = [tool for tool in found if sees(tool)]
            if len(seen) >= limit or len(found) < asked:
                return seen[:limit]
            asked *= 4

    async def describe(self, principal: Principal, arguments: Mapping[str, Any]) -> JsonObject:
        tool = await self.find(principal, str(arguments["name"]))
        wire = await self._listing.wire(tool.name)
        return text_result(to_json(wire).decode(), wire)

    async def find(self, principal: Principal, name: str) -> ToolSummary:
        found = await self._listing.resolve(principal, name)
        if found is None:
            hint = did_you_mean(
                name, await self._listing.known_names(principal), f"find its name with {SEARCH}"
            )
            raise NotFoundError(f"there is no tool {name!r}", hint=hint, tool=name)
        return found
