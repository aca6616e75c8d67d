"""No model and no client is ever sent an invalid schema, whatever a source gives."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from mcp_types import Tool as McpTool
from model_rules import invalid, refused
from mutations import KEYWORDS, REAL, at, broken_schemas, places

from spindle.adapters.anthropic import AnthropicTools
from spindle.adapters.openai import OpenAITools
from spindle.adapters.tool_names import Offer
from spindle.calls.options import DEFAULT_OPTIONS
from spindle.catalog.screening import take
from spindle.domain.names import served_names
from spindle.domain.schema_cost import CIRCLE
from spindle.domain.source import SourceConfig
from spindle.domain.tool import Tool, ToolSpec
from spindle.mcp_server.convert import for_handshake_tool, to_wire_tool
from spindle.rest.openapi import document
from spindle.rest.utcp import manual
from spindle.schemas.compiled import CompiledSchema
from spindle.schemas.repair import Repairs

THOROUGH = settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def taken(arguments: dict[str, Any], result: dict[str, Any] | None) -> Tool:
    """The tool in the catalog."""
    spec = ToolSpec("do it", input_schema=copy.deepcopy(arguments), output_schema=copy.deepcopy(result))
    found = take("made", SourceConfig(kind="made"), [spec])
    if found.left_out:
        # The one thing that costs a tool: a circle through the address of a part of it.
        assert CIRCLE in found.left_out[0].reason
        assume('"$id"' not in json.dumps([arguments, result]))
    (tool,) = found.tools
    # What the source gave is kept whole, and a change of it is still noticed.
    assert (tool.spec.input_schema, tool.spec.output_schema) == (arguments, result)
    assert tool.fingerprint == spec.fingerprint
    stored = ToolSpec.from_definition(tool.spec.to_dict())
    assert (stored.repaired, stored.fingerprint) == (tool.spec.repaired, tool.fingerprint)
    return tool


@given(broken_schemas(), broken_schemas() | st.none())
@THOROUGH
def test_a_broken_schema_is_served_and_checked_as_a_valid_one(
    arguments: dict[str, Any], result: dict[str, Any] | None
) -> None:
    tool = taken(arguments, result)
    for schema in (tool.input_schema, tool.output_schema):
        assert schema is None or invalid(schema) is None, (schema, invalid(schema))

    wire = to_wire_tool(tool, "do_it")
    for form in (wire, for_handshake_tool(wire)):
        assert invalid(form["inputSchema"]) is None
        assert form["inputSchema"]["type"] == "object"
        assert all(isinstance(part, dict) for part in form["inputSchema"].get("properties", {}).values())
        assert invalid(form.get("outputSchema", {})) is None
        McpTool.model_validate(form, by_name=False)

    written = document([tool], "http://127.0.0.1", wants_token=False)
    operation = written["paths"]["/tools/made.do_it"]["post"]
    sent = operation["requestBody"]["content"]["application/json"]["schema"]
    answered = operation["responses"]["200"]["content"]["application/json"]["schema"]
    held = [{"$ref": f"#/components/schemas/{name}"} for name in written["components"]["schemas"]]
    for schema in (sent, answered, *held):
        whole = {**schema, "components": written["components"]}
        assert invalid(whole) is None, (whole, invalid(whole))
    (described,) = manual([tool], "http://127.0.0.1", wants_token=False)["tools"]
    assert invalid(described["inputs"]) is None
    assert invalid(described["outputs"]) is None


@given(broken_schemas())
@THOROUGH
def test_a_broken_schema_reaches_every_model_as_one_that_its_api_takes(arguments: dict[str, Any]) -> None:
    tool = taken(arguments, None)
    served = served_names([tool.name])[tool.name]
    offer = Offer(None, {served: tool}, DEFAULT_OPTIONS, None)  # type: ignore[arg-type] # nothing is called
    (chat,) = OpenAITools(offer).chat
    (responses,) = OpenAITools(offer).responses
    (messages,) = AnthropicTools(offer).definitions
    for name, schema in (
        (chat["function"]["name"], chat["function"]["parameters"]),
        (responses["name"], responses["parameters"]),
        (messages["name"], messages["input_schema"]),
    ):
        assert refused(name, schema) is None, (schema, refused(name, schema))


@pytest.mark.parametrize("name", sorted(REAL))
def test_a_published_schema_is_not_touched_unless_it_is_of_an_older_draft(name: str) -> None:
    usable = Repairs().of(REAL[name])
    assert usable.faults == ()
    rewritten = {"a pair of draft 7", "bounds of draft 4", "an address"}
    assert (usable.schema is REAL[name]) == (name not in rewritten)
    assert invalid(usable.schema) is None


FITTING: dict[str, list[Any]] = {
    "a tree": [{}, {"root": {}}, {"root": {"next": [{"next": []}]}}],
    "branches": [{"iban": "DE1"}, {"number": "4711"}],
    "a pair of draft 7": [{}, {"pair": ["a", "b"], "at": "2026-01-01T00:00:00Z", "until": "x"}],
    "bounds of draft 4": [{}, {"n": 0.5}, {"x-a": "b"}],
    "conditions": [{"kind": "b"}, {"kind": "a", "size": 1}],
    "an address": [{}, {"buyer": {"odd name $": "x"}, "seller": {}}],
    "odd names": [{"$filter": "a", "filter[name]": None}],
}
"""Values that fit schemas whose every keyword matters."""

_UNREADABLE: dict[str, Any] = {
    "type": "strng",
    "pattern": "([",
    "$ref": "#/nowhere",
    "enum": "a",
    "required": 5,
}


@given(st.data())
@settings(max_examples=500, deadline=None)
def test_what_fitted_a_schema_fits_what_is_left_when_a_keyword_of_it_cannot_be_read(
    data: st.DataObject,
) -> None:
    name = data.draw(st.sampled_from(sorted(FITTING)))
    schema = copy.deepcopy(REAL[name])
    keywords = [
        path
        for path in places(schema)
        if path and path[-1] in KEYWORDS and isinstance(at(schema, path[:-1]), dict)
    ]
    for path in data.draw(st.lists(st.sampled_from(keywords), min_size=1, max_size=3)):
        try:
            at(schema, path[:-1])[path[-1]] = _UNREADABLE.get(
                path[-1], 0 if path[-1] in ("items", "not", "if") else "?"
            )
        except (KeyError, TypeError, IndexError):
            continue  # it stood in what was just broken
    usable = Repairs().opened(Repairs().of(schema))
    checked = CompiledSchema(usable.schema)
    for value in FITTING[name]:
        assert checked.accepts(value), (value, usable)
