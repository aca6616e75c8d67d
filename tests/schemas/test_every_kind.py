"""Bad schemas of every kind of source: the tool is there, says what was dropped, and works."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from model_rules import invalid, refused

from spindle.app import Spindle
from spindle.domain.names import served_names
from spindle.errors import InvalidArgumentsError
from spindle.schemas.models import model_schema
from spindle.testing import workspace

PROPERTIES = {
    "when": {"type": "string", "pattern": "(["},
    "who": {"$ref": "#/$defs/gone"},
    "pair": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]},
    "n": {"type": "integer"},
}
BAD = {"type": "object", "properties": {**PROPERTIES, "size": {"type": "int"}}, "required": ["n", 5]}
GIVEN = {"when": "now", "who": 1, "pair": ["a", 1], "n": 7, "size": "any"}

FUNCTION = f"""
from spindle import tool

@tool(input_schema={BAD!r})
def odd(**arguments) -> dict:
    return arguments
"""
MOD = f"""
from spindle import tool

class Counter:
    @tool(input_schema={BAD!r})
    def odd(self, **arguments) -> dict:
        return arguments

    def get_tools(self):
        return [self.odd]
"""
MANUAL = {
    "utcp_version": "1.0.1",
    "tools": [
        {
            "name": "odd",
            "inputs": BAD,
            "outputs": {"type": "objekt"},
            "tool_call_template": {"call_template_type": "text", "content": "hello"},
        },
        {
            "name": "none",
            "inputs": "text",
            "tool_call_template": {"call_template_type": "text", "content": "hello"},
        },
    ],
}
EVENTS = {
    "asyncapi": "3.0.0",
    "info": {"title": "T", "version": "1.0.0"},
    "channels": {"c": {"address": "placed", "messages": {"Placed": {"payload": {**BAD, "required": ["n"]}}}}},
    "operations": {"odd": {"action": "send", "channel": {"$ref": "#/channels/c"}, "x-agent-tool": True}},
}
API = {
    "openapi": "3.1.0",
    "info": {"title": "T", "version": "1"},
    "servers": [{"url": "http://127.0.0.1:9"}],
    "paths": {
        "/odd": {
            "post": {
                "operationId": "odd",
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Bad"}}},
                },
                "responses": {
                    "200": {
                        "description": "fine",
                        "content": {"application/json": {"schema": {"type": "wrong"}}},
                    }
                },
            }
        }
    },
    "components": {"schemas": {"Bad": {**BAD, "properties": {**BAD["properties"], "who": {"enum": "x"}}}}},
}


async def shown(app: Spindle, name: str, source: str) -> str:
    """What was dropped of a tool, which nobody is sent otherwise than valid."""
    (report,) = await app.sync(source)
    assert report.error is None
    assert report.left_out == []
    tool = await app.show(name)
    for schema in (tool.input_schema, tool.output_schema or {}):
        assert invalid(schema) is None
    assert refused(served_names([name])[name], model_schema(tool)) is None
    return "; ".join(f"{item.name}: {item.reason}" for item in report.loosened) + "; ".join(tool.faults)


async def check_call(app: Spindle, name: str) -> Mapping[str, Any] | None:
    """A call with what the schema was meant to allow; what is left of it is checked."""
    with pytest.raises(InvalidArgumentsError, match="n: "):
        await app.call(name, {**GIVEN, "n": "seven"})
    with pytest.raises(InvalidArgumentsError, match="pair"):
        await app.call(name, {**GIVEN, "pair": [1, "a"]})
    result = await app.call(name, GIVEN)
    assert not result.is_error
    return result.structured


async def test_a_function_of_the_workspace() -> None:
    async with workspace(files={"tools/odd.py": FUNCTION}) as app:
        said = await shown(app, "odd", "tools")
        for fault in ("when.pattern", "who.$ref", "size.type", "required"):
            assert fault in said
        assert await check_call(app, "odd") == GIVEN


async def test_a_mod() -> None:
    async with workspace(files={"mods/counter.py": MOD}) as app:
        assert "size.type" in await shown(app, "odd", "mods")
        assert await check_call(app, "odd") == GIVEN


async def test_a_manual_of_utcp() -> None:
    async with workspace(
        sources={"m": {"kind": "utcp", "document": "manual.json"}}, files={"manual.json": json.dumps(MANUAL)}
    ) as app:
        said = await shown(app, "m.odd", "m")
        assert "size.type" in said
        assert "output schema: type" in said
        assert 'm.none: input schema: "text" is not a schema' in said
        await check_call(app, "m.odd")
        assert (await app.call("m.none", {"anything": 1})).text == "hello"


async def test_a_program_and_a_websocket_service() -> None:
    output = {"type": "array", "items": {"type": "txt"}}
    version = {"args": ["--version"], "output": "lines", "output_schema": output}
    sources = {
        "p": {"kind": "cli", "program": sys.executable, "commands": {"odd": version}},
        "w": {
            "kind": "websocket",
            "url": "ws://127.0.0.1:9",
            "requests": {"odd": {"message": {"a": 1}, "output_schema": {"$ref": "#/nowhere"}}},
        },
    }
    async with workspace(sources=sources) as app:
        assert "output schema: items.type" in await shown(app, "p.odd", "p")
        assert (await app.call("p.odd")).structured[0].startswith("Python")
        assert "output schema: $ref" in await shown(app, "w.odd", "w")


async def test_a_document_of_events() -> None:
    async with workspace(files={"events/a.json": json.dumps(EVENTS)}) as app:
        await app.sync("events")
        tool = await app.show("odd")
        assert invalid(tool.input_schema) is None
        heard = app.events()
        with pytest.raises(InvalidArgumentsError):
            await app.call("odd", {**GIVEN, "n": "seven"})
        await app.call("odd", GIVEN)
        assert (await anext(heard)).data == GIVEN


async def test_a_document_of_an_api() -> None:
    async with workspace(
        sources={"api": {"kind": "openapi", "document": "api.json"}}, files={"api.json": json.dumps(API)}
    ) as app:
        said = await shown(app, "api.odd", "api")
        assert "size.type" in said
        assert "who.enum" in said
        assert "output schema: type" in said
        with pytest.raises(InvalidArgumentsError, match=r"body\.n: "):
            await app.call("api.odd", {"body": {**GIVEN, "n": "seven"}})
