"""The catalog as three tools, one of which runs programs that call the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from spindle.code_mode.reading import (
    CODE,
    DESCRIBE_SAYS,
    RUN_CODE,
    SEARCH_SAYS,
    about,
    run_says,
    signatures,
)
from spindle.code_mode.workspace import KIND
from spindle.domain.json_schema import JsonObject
from spindle.domain.tool import Hints, Tool, ToolSpec, ToolSummary
from spindle.mcp_server.convert import text_result
from spindle.mcp_server.search_mode import DESCRIBE, MOST_FOUND, SEARCH

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.domain.identity import Principal
    from spindle.domain.serve import ServeConfig
    from spindle.mcp_server.search_mode import SearchMode

RUN = ToolSummary(RUN_CODE, "", KIND, "")
_DEFAULT_FOUND = 5


def _tool(name: str, title: str, said: str, properties: JsonObject, required: str, **spec: Any) -> Tool:
    schema: JsonObject = {
        "type": "object",
        "properties": properties,
        "required": [required],
        "additionalProperties": False,
    }
    made = ToolSpec(name, said, schema, title=title, **spec)
    return Tool(name, "", "serve", made, made.fingerprint)


def tools_saying(run: str) -> Mapping[str, Tool]:
    """Returns the three tools; `run` is the description of the one that runs programs."""
    limit = {"type": "integer", "minimum": 1, "maximum": MOST_FOUND, "default": _DEFAULT_FOUND}
    query = {"type": "string", "minLength": 1, "description": "what the function should do"}
    name = {"type": "string", "description": "a function such as `github.get_issue`, or a module"}
    return {
        SEARCH: _tool(
            SEARCH, "Search functions", SEARCH_SAYS, {"query": query, "limit": limit}, "query",
            hints=Hints(read_only=True),
        ),
        DESCRIBE: _tool(
            DESCRIBE, "Describe a function", DESCRIBE_SAYS, {"name": name}, "name",
            hints=Hints(read_only=True),
        ),
        RUN_CODE: _tool(RUN_CODE, "Run a program", run, {"code": CODE}, "code"),
    }  # fmt: skip


TOOLS = tools_saying("")


class CodeMode:
    """Offers the catalog to clients whose models write programs."""

    def __init__(self, app: Spindle, search: SearchMode) -> None:
        self._code = app.agents.code
        self._search = search

    async def tools(self, principal: Principal) -> Mapping[str, Tool]:
        """Returns the three tools, with the modules that this principal may import."""
        return tools_saying(run_says(await self._code.library(principal)))

    async def search(self, principal: Principal, arguments: Mapping[str, Any]) -> JsonObject:
        limit = int(arguments.get("limit", _DEFAULT_FOUND))
        found = await self._search.visible(principal, str(arguments["query"]), limit)
        text = await signatures(await self._code.library(principal), [tool.name for tool in found])
        return text_result(text or "no function matches; try other words", None)

    async def describe(self, principal: Principal, arguments: Mapping[str, Any]) -> JsonObject:
        return text_result(await about(await self._code.library(principal), str(arguments["name"])), None)


def given(config: ServeConfig, arguments: JsonObject) -> JsonObject:
    """Returns what the run of a program is given."""
    return {"code": str(arguments["code"]), "limits": config.code.model_dump()}
