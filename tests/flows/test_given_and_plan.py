"""What a user gives a flow by name, and what it would call then."""

from __future__ import annotations

from typing import Any

import pytest

from flows.tools import find
from spindle.flows.inputs import names_of, with_params
from spindle.flows.plan import plan
from spindle.flows.text.files import read

FLOW = """
version: 1
name: triage
inputs:
  query: {type: string}
  lang: {type: string, default: en}
params: {channel: dev}
nodes:
- {id: search, tool: github.search_code, params: {limit: 5}}
- {id: sum, tool: text.summarize, params: {text: "${lang}: ${search.total ?? 0}"}}
- {id: inner, flow: {nodes: [{id: count, tool: text.count, params: {text: "${sum.summary}"}}]}}
- {id: ask, ask: "Send ${query}?"}
- {id: send, tool: slack.send}
- {id: later, tool: slack.send, params: {channel: later, text: "${summary ?? none}"}}
edges:
- {from: search, to: sum}
- {from: sum, to: inner}
- {from: inner, to: ask}
- {from: ask, to: send}
- {from: send, to: later, action: rate_limited}
mappings:
  send: {inputs: {text: sum.summary}}
"""


@pytest.fixture
def flow() -> Any:
    return read(FLOW, "yaml").definition


async def test_inputs_and_parameters_have_the_types_of_their_tools(flow: Any) -> None:
    names = await names_of(flow, find)
    assert (set(names.inputs), names.required) == ({"query", "lang"}, {"query"})
    assert names.params["limit"]["type"] == "integer"
    assert names.params["channel"]["type"] == "string"
    assert "later.channel" in names.params
    assert "count.text" in names.params


async def test_a_parameter_goes_where_it_was_set_and_else_to_all(flow: Any) -> None:
    changed = with_params(flow, {"limit": 9, "sentences": 1, "later.channel": "ops"})
    assert changed.node("search").params == {"limit": 9}
    assert changed.params == {"channel": "dev", "sentences": 1}
    assert changed.node("later").params["channel"] == "ops"
    both = with_params(flow, {"channel": "x"})
    assert (both.params["channel"], both.node("later").params["channel"]) == ("x", "x")
    assert with_params(flow, {"count.text": "t"}).node("inner").flow.nodes[0].params == {"text": "t"}
    assert with_params(flow, {"text": "all"}).node("inner").flow.nodes[0].params == {"text": "all"}


async def test_a_plan_resolves_what_is_known_and_keeps_the_rest_as_templates(flow: Any) -> None:
    planned = {node.node: node for node in await plan(flow, {"query": "TODO"}, find)}
    assert list(planned) == ["search", "sum", "inner/count", "ask", "send", "later"]
    assert planned["search"].arguments == {"query": "TODO", "limit": 5}
    # What a node will give is not its default, however little is known of it now.
    assert planned["sum"].arguments == {"text": "${lang}: ${search.total ?? 0}"}
    assert planned["inner/count"].arguments == {"text": "${sum.summary}"}
    assert planned["ask"].text == "Send TODO?"
    assert planned["send"].arguments == {"channel": "dev", "text": "${sum.summary}"}
    assert planned["send"].next == {"rate_limited": ("later",)}
    assert planned["later"].arguments == {"channel": "later", "text": "${summary ?? none}"}


async def test_a_plan_from_a_node_uses_what_was_left_before_it(flow: Any) -> None:
    (only,) = await plan(flow, {"search": {"total": 3}}, find, start="sum", only=True)
    assert only.arguments == {"text": "en: 3"}
    (missing,) = await plan(flow, {}, find, start="search", only=True)
    assert missing.missing == ("query",)
