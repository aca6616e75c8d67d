"""Tools as the catalog has them, for tests that need no source."""

from __future__ import annotations

from typing import Any

from spindle.domain.tool import Hints, Tool, ToolSpec
from spindle.errors import NotFoundError, suggest


def schema(*required: str, **properties: Any) -> dict[str, Any]:
    """`schema("a", a="string", b={"type": "integer"})`"""
    return {
        "type": "object",
        "properties": {
            name: {"type": kind} if isinstance(kind, str) else kind for name, kind in properties.items()
        },
        **({"required": list(required)} if required else {}),
    }


def tool(
    name: str,
    takes: dict[str, Any] | None = None,
    gives: dict[str, Any] | None = None,
    actions: dict[str, str] | None = None,
) -> Tool:
    spec = ToolSpec(
        name.rpartition(".")[2],
        input_schema=takes or schema(),
        output_schema=gives,
        hints=Hints(),
        metadata={"node": {"actions": actions}} if actions else {},
    )
    return Tool(name, name.partition(".")[0], "python", spec, spec.fingerprint)


TOOLS = {
    found.name: found
    for found in [
        tool(
            "github.search_code",
            schema(
                "query",
                query="string",
                limit="integer",
                tags={"type": "array", "items": {"type": "string"}},
                exact="boolean",
                options="object",
                any={},
            ),
            schema(items={"type": "array", "items": {"type": "object"}}, total="integer"),
        ),
        tool(
            "text.summarize",
            schema("text", text={"type": ["string", "array"]}, sentences={"type": "integer", "default": 3}),
            schema(summary="string"),
        ),
        tool("text.upper", schema("text", text="string")),
        tool(
            "text.join",
            schema("left", "right", left="string", right="string"),
            {**schema(result="string"), "x-fastmcp-wrap-result": True},
        ),
        tool("text.count", schema("text", text="string"), schema("words", words="integer")),
        tool(
            "slack.send",
            schema("text", "channel", text="string", channel="string"),
            schema(ts="string", ok="boolean"),
        ),
        tool("time.now"),
        tool("http.get", schema("url", url="string", count="integer")),
        tool(
            "flow.route", schema("text", text="string"), actions={"default": "", "too_short": "nothing to do"}
        ),
        tool("log.write", schema("ok", "ts", ok="boolean", ts="string")),
        tool("data.load", schema("data", data="object")),
        tool("odd.stdin", schema()),
        tool("math.half", schema("n", n="number"), schema("n", n="number")),
        tool(
            "math.closed",
            schema("n", n="integer"),
            {**schema("a", a="integer"), "additionalProperties": False},
        ),
        tool("open.any", {"type": "object", "properties": {}, "additionalProperties": True}),
    ]
}


async def find(name: str) -> Tool:
    local = {full.rpartition(".")[2]: full for full in TOOLS}
    if (found := TOOLS.get(name) or TOOLS.get(local.get(name, ""))) is not None:
        return found
    meant = suggest(name, [*TOOLS, *local])
    raise NotFoundError(
        f"there is no tool {name!r}",
        hint=f"did you mean {meant!r}?" if meant else f"try `spindle search {name}`",
    )
