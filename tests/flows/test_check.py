"""What is found in a flow before it runs, each with its file and line."""

# Messages stand in one piece, so that they can be found.
# ruff: noqa: E501

from __future__ import annotations

import itertools
import textwrap
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from flows.strategies import DEFINITIONS
from flows.tools import TOOLS, find, schema, tool
from servers.examples import examples
from servers.running import OpenSources, StdioServers
from spindle.domain.tool import Tool
from spindle.errors import NotFoundError, StoreError
from spindle.flows.check.check import check
from spindle.flows.definition import KINDS, Edge, FlowDefinition, FlowOutput, NodeDefinition, Question
from spindle.flows.expressions.errors import ExpressionError
from spindle.flows.expressions.paths import MISSING
from spindle.flows.library import with_fingerprints
from spindle.flows.templates import Reference, parse
from spindle.flows.text.files import read
from spindle.flows.text.pipe import read_pipe


async def problems(text: str, find: Any = find) -> list[str]:
    loaded = read(textwrap.dedent(text).lstrip("\n"), "yaml", "f.yaml")
    found = await check(loaded.definition, find, loaded.positions, loaded.place)
    return [f"{item.severity} {item}" + (f" [{item.hint}]" if item.hint else "") for item in found]


async def test_a_store_that_cannot_be_used_is_no_mistake_of_the_flow() -> None:
    async def away(name: str) -> Tool:
        raise StoreError("cannot connect")

    with pytest.raises(StoreError, match="cannot connect"):
        await problems("nodes: [{id: a, tool: text.count}]", away)


GOOD = [
    # a chain by name
    """
    nodes:
    - {id: count, tool: text.count, params: {text: a b}}
    - {id: half, tool: math.half, params: {n: "${count.words}"}}
    - {id: again, tool: math.half}
    edges: [{from: count, to: half}, {from: half, to: again}]
    outputs: {n: "${n}", words: {value: "${count.words}", type: integer}}
    """,
    # the worked case: branches for errors
    """
    inputs: {query: {type: string}, channel: {type: string, default: dev}}
    nodes:
    - {id: search, tool: github.search_code}
    - {id: sum, tool: text.summarize, params: {text: "${search.items}"}}
    - {id: send, tool: slack.send, params: {text: "${sum.summary}"}, fail_when: ok == false}
    - {id: wait, tool: time.now}
    - {id: tell, tool: text.upper, params: {text: "no: ${send.error.message} / ${error.category}"}}
    edges:
    - {from: search, to: sum}
    - {from: sum, to: send}
    - {from: send, action: rate_limited, to: wait}
    - {from: wait, to: send}
    - {from: send, action: auth_failed, to: tell}
    """,
    # exclusive branches write one key
    """
    inputs: {text: {type: string}}
    nodes:
    - {id: route, tool: flow.route}
    - {id: a, tool: text.summarize}
    - {id: b, tool: text.summarize, params: {sentences: 1}}
    - {id: end, tool: text.upper, params: {text: "${summary}"}}
    edges:
    - {from: route, to: a}
    - {from: route, action: too_short, to: b}
    - {from: a, to: end}
    - {from: b, to: end}
    """,
    # a default where a branch may not have run
    """
    inputs: {text: {type: string}}
    nodes:
    - {id: route, tool: flow.route}
    - {id: a, tool: text.summarize}
    - {id: end, tool: text.upper, params: {text: "${a.summary ?? 'none'}"}}
    edges: [{from: route, to: a}, {from: route, action: too_short, to: end}, {from: a, to: end}]
    """,
    # a batch
    """
    nodes:
    - {id: search, tool: github.search_code, params: {query: x}}
    - {id: each, tool: text.upper, batch: {over: "${search.items}", item: found, keep_errors: true},
       params: {text: "${found.name}"}}
    - {id: load, tool: data.load, params: {data: {all: "${each}", bad: "${each.failed[0].error.message}", same: "${upper}"}}}
    edges: [{from: search, to: each}, {from: each, to: load}]
    """,
    # an output that a mapping takes from a result of which nothing is known
    """
    nodes:
    - {id: get, tool: http.get, params: {url: "http://x"}}
    - {id: up, tool: text.upper, params: {text: "${found}"}}
    edges: [{from: get, to: up}]
    mappings: {get: {outputs: {results: found}}}
    """,
    # mappings, renamed outputs, flattened keys, ask
    """
    nodes:
    - {id: where, ask: {message: "Which channel for ${start_at}?", schema: {type: object, properties: {channel: {type: string}}}}}
    - {id: send, tool: slack.send}
    - {id: log, tool: log.write}
    edges: [{from: where, to: send}, {from: send, to: log}]
    inputs: {start_at: {type: string}, text: {type: object, properties: {body: {type: string}}}}
    mappings: {send: {inputs: {text: text.body}, outputs: {ts: sent}}, log: {inputs: {ts: sent}}}
    """,
    # a flow in a flow: one store, its last action passed on
    """
    nodes:
    - id: sub
      flow:
        nodes: [{id: inner, tool: flow.route, params: {text: "${first}"}}]
    - {id: short, tool: text.upper, params: {text: "${inner}"}}
    - {id: first, tool: time.now}
    start: first
    edges: [{from: first, to: sub}, {from: sub, action: too_short, to: short}]
    """,
    # params of the flow
    """
    params: {channel: dev, text: "${now}"}
    nodes: [{id: now, tool: time.now}, {id: send, tool: slack.send}]
    edges: [{from: now, to: send}]
    """,
    # null, numbers, anything
    """
    nodes: [{id: a, tool: math.half, params: {n: 1}}, {id: b, tool: open.any, params: {free: [1, "${a.n}"]}}]
    edges: [{from: a, to: b}]
    """,
    # on_unknown: end lets actions without an edge be
    """
    on_unknown: end
    nodes: [{id: r, tool: flow.route, params: {text: x}}, {id: n, tool: time.now}]
    edges: [{from: r, to: n}]
    """,
]


@pytest.mark.parametrize("text", GOOD)
async def test_a_flow_that_is_right_gives_nothing_to_complain_about(text: str) -> None:
    assert await problems(text) == []


N = "nodes: [{id: now, tool: time.now}]\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # --- tools
        (
            "nodes:\n- id: a\n  tool: text.uper\n",
            ["error f.yaml:3: a: there is no tool 'text.uper' [did you mean 'text.upper'?]"],
        ),
        (
            "nodes:\n- {id: now, tool: time.now,\n   fingerprint: old}\n",
            [
                "warning f.yaml:3: now: time.now has changed since the flow was saved "
                "[`spindle show time.now` shows it as it is now; save the flow again when it is right]"
            ],
        ),
        # --- structure
        (
            "nodes:\n- {id: a, tool: time.now}\n- {id: a, tool: time.now}\n",
            ["error f.yaml:3: two nodes have the id 'a' [give each node an id of its own]"],
        ),
        (
            N + "edges:\n- from: now\n  to: nwo\n",
            ["error f.yaml:4: an edge names 'nwo', but there is no such node [did you mean 'now'?]"],
        ),
        (
            N + "edges:\n- {from: x,\n   to: now}\n",
            ["error f.yaml:3: an edge names 'x', but there is no such node [there are now]"],
        ),
        (
            N + "start: then\n",
            ["error f.yaml:2: the flow should start at 'then', but there is no such node [there are now]"],
        ),
        (
            "nodes:\n- {id: a, tool: time.now}\n- {id: b, tool: time.now}\nedges:\n- {from: a, to: b}\n- {from: a, to: a}\n",
            [
                "error f.yaml:2: a branch of 'a' leads back to it before the branches have met [let the way back "
                "begin at the node where they meet]"
            ],
        ),
        (
            "nodes:\n- {id: a, tool: time.now}\n- {id: b, tool: time.now}\n",
            ["warning f.yaml:3: 'b' is never reached from 'a' [add an edge that leads to it, or remove it]"],
        ),
        # --- actions
        (
            "nodes:\n- {id: a, tool: time.now}\n- {id: b, tool: time.now}\nedges:\n- {from: a, to: b}\n- {from: a, action: rate_limit, to: b}\n",
            ["error f.yaml:6: 'a' never chooses the action 'rate_limit' [did you mean 'rate_limited'?]"],
        ),
        (
            "nodes:\n- {id: a, ask: Sure?}\n- {id: b, tool: time.now}\nedges:\n- {from: a, action: no, to: b}\n",
            ["error f.yaml:5: 'a' never chooses the action 'no' [there are default, refused, error]"],
        ),
        (
            "nodes:\n- {id: a, tool: flow.route, params: {text: x}}\n- {id: b, tool: time.now}\nedges:\n- {from: a, to: b}\n",
            [
                "warning f.yaml:2: 'a' may choose 'too_short', but has no edge for it "
                '[add an edge, or let the flow end: "on_unknown": "end"]'
            ],
        ),
        (
            "nodes:\n- id: a\n  flow: {nodes: [{id: x, tool: time.now}]}\n- {id: b, tool: time.now}\nedges:\n- {from: a, action: done, to: b}\n",
            [
                "error f.yaml:6: 'a' never chooses the action 'done' [there are default, rate_limited, auth_failed, resource_missing, timeout, in_doubt, server_error, error]"
            ],
        ),
        # --- circles
        (
            "nodes:\n- {id: a, tool: time.now}\n- {id: b, tool: time.now}\nedges:\n- {from: a, to: b}\n- {from: b, to: a}\n",
            [
                "error f.yaml:2: there is no way out of the loop a → b → a "
                "[add an edge out of it for an action, or remove a `default` edge]"
            ],
        ),
        (
            "nodes:\n- {id: s, tool: time.now}\n- {id: a, tool: time.now}\nedges:\n- {from: s, to: a}\n- {from: a, to: a}\n",
            [
                "error f.yaml:3: there is no way out of the loop a → a "
                "[add an edge out of it for an action, or remove a `default` edge]"
            ],
        ),
        (
            "nodes:\n- {id: a, tool: time.now}\n- {id: b, tool: time.now}\nedges:\n- {from: a, to: a}\n- {from: a, action: error, to: b}\n",
            [],
        ),
        # --- inputs that nothing gives
        (
            "nodes:\n- id: up\n  tool: text.upper\n",
            [
                "error f.yaml:2: up: `text` is missing: nothing provides it "
                "[set 'text' in the node's params, map it, or give the flow an input 'text']"
            ],
        ),
        (
            "nodes:\n- {id: up, tool: text.upper}\n- {id: sub, flow: {inputs: {text: {}}, nodes: [{id: y, tool: time.now}]}}\nedges:\n"
            "- {from: up, to: sub}\ninputs: {text: {type: string, required: false}}\n",
            [
                "warning f.yaml:2: up: `text` may be missing: the input is optional [set 'text' in the node's params]",
                "warning f.yaml:3: sub: `text` may be missing: the input is optional [set 'text' in the node's params]",
            ],
        ),
        (
            "nodes:\n- {id: now, tool: time.now}\n- {id: up, tool: text.upper}\nedges:\n- {from: now, to: up}\n",
            [
                "warning f.yaml:3: up: `text` is needed, and nothing before is known to write it "
                "[set 'text' in the node's params, map it, or give the flow an input 'text']"
            ],
        ),
        (
            "nodes:\n- {id: half, tool: math.half}\n- {id: next, tool: math.half, params: {n: 1}}\nedges: [{from: half, to: next}]\n",
            [
                "error f.yaml:2: half: `n` is missing: 'half', which writes it, cannot have run before "
                "[set 'n' in the node's params, map it, or give the flow an input 'n']",
                "warning f.yaml:3: 'n' is written by 'half' and again by 'next', so that only the second is found under that name "
                "[${half.n} and ${next.n} say which is meant; `mappings` can rename one]",
            ],
        ),
        (
            "nodes:\n- {id: a, tool: text.upper, params: {text: x}}\n- {id: b, tool: text.upper, params: {text: y}}\n"
            "- {id: c, tool: text.upper, params: {text: '${upper}'}}\nedges: [{from: a, to: b}, {from: b, to: c}]\n",
            [
                "error f.yaml:3: 'upper' is written by 'a' and again by 'b', and node 'c' reads it by that name "
                "[${a.upper} and ${b.upper} say which is meant; `mappings` can rename one]"
            ],
        ),
        (
            "inputs: {text: {type: string}}\nnodes:\n- {id: r, tool: flow.route}\n- {id: h, tool: math.half, params: {n: 1}}\n"
            "- {id: e, tool: math.half}\nedges: [{from: r, to: h}, {from: h, to: e}, {from: r, action: too_short, to: e}]\n",
            [
                "warning f.yaml:5: e: `n` may be missing: 'h', which writes it, may not have run [set 'n' in the node's params]"
            ],
        ),
        # --- params that the tool does not have, or of a wrong type
        (
            "nodes:\n- id: up\n  tool: text.upper\n  params:\n    text: x\n    txt: y\n",
            ["error f.yaml:6: up: text.upper has no input 'txt' [did you mean 'text'?]"],
        ),
        (
            "nodes:\n- {id: n, tool: time.now, params:\n   {zone: y}}\n",
            ["error f.yaml:3: n: time.now has no input 'zone' [time.now takes no inputs]"],
        ),
        (
            "nodes:\n- id: s\n  tool: github.search_code\n  params:\n    query: x\n    limit: many\n",
            ['error f.yaml:6: s: `limit`: "many" is not of type "integer"'],
        ),
        (
            "nodes:\n- id: s\n  tool: github.search_code\n  params:\n    query: x\n    tags:\n    - a\n    - 5\n",
            ['error f.yaml:8: s: `tags[1]`: 5 is not of type "string"'],
        ),
        (
            "nodes:\n- {id: up, tool: text.upper, params: {text: x}}\n- {id: b, tool: text.upper}\nedges: [{from: up, to: b}]\n"
            "params:\n  text: 5\n",
            ['error f.yaml:6: b: `text`: 5 is not of type "string"'],
        ),
        (N + "params:\n  foo: 1\n", ["warning f.yaml:3: no node takes the param 'foo'"]),
        (
            "inputs: {n: {type: string}}\nnodes:\n- {id: h, tool: math.half,\n   params: {n: '${n}'}}\n",
            ["error f.yaml:4: h: `n`: ${n} is a string, but should be a number"],
        ),
        (
            "inputs: {n: {type: string}}\nnodes:\n- {id: h, tool: math.half}\n",
            [
                "error f.yaml:3: h: `n` is read from the shared key of that name: it is a string, but should be a number "
                "[set 'n' in the node's params, or map it]"
            ],
        ),
        (
            "inputs: {n: {type: integer}}\nnodes:\n- {id: h, tool: math.half,\n   params: {n: 'about ${n}'}}\n",
            [
                "error f.yaml:4: h: `n`: 'about ${n}' is text, but should be a number "
                "[a template that is the whole value keeps its type]"
            ],
        ),
        (
            "nodes:\n- {id: s, tool: github.search_code, params: {query: x}}\n- {id: up, tool: text.upper,\n"
            "   params: {text: '${s.items}'}}\nedges: [{from: s, to: up}]\n",
            ["error f.yaml:4: up: `text`: ${s.items} is a list, but should be a string"],
        ),
        (
            "nodes:\n- {id: s, tool: github.search_code, params: {query: x}}\n- {id: up, tool: text.upper}\nedges: [{from: s, to: up}]\n"
            "mappings:\n  up:\n    inputs:\n      text: s.total\n",
            ["error f.yaml:8: up: `text`: s.total is an integer, but should be a string"],
        ),
        (
            "inputs: {n: {type: integer, default: 5}}\nnodes:\n- {id: up, tool: text.upper,\n   params: {text: '${n ?? 7}'}}\n",
            ["error f.yaml:4: up: `text`: ${n ?? 7} is an integer, but should be a string"],
        ),
        (
            "inputs: {n: {type: integer, required: false}}\nnodes:\n- {id: up, tool: text.upper,\n   params: {text: \"${n ?? 'x'}\"}}\n",
            [],
        ),
        (
            "inputs:\n  n: {type: integer, default: x}\n" + N,
            ["error f.yaml:2: the input 'n': its default is a string, but should be an integer"],
        ),
        (
            "inputs:\n  n: {type: intger}\n" + N,
            [
                "error f.yaml:2: the input 'n': its schema is not valid: \"intger\" is not valid under any of the schemas "
                "listed in the 'anyOf' keyword"
            ],
        ),
        # --- templates
        (
            "nodes:\n- {id: up, tool: text.upper,\n   params: {text: '${x'}}\n",
            ["error f.yaml:3: up: `text`: '${x' is not closed with a brace"],
        ),
        (
            "nodes:\n- {id: up, tool: text.upper,\n   params: {text: '"
            + "${x ?? " * 500
            + "1"
            + "}" * 500
            + "'}}\n",
            [f"error f.yaml:3: up: `text`: ${{{('x ?? ${' * 10)[:59]}…}}: nested too deeply (at column 171)"],
        ),
        (
            "nodes:\n- {id: up, tool: text.upper,\n   params: {text: '${uper}'}}\n",
            [
                "error f.yaml:3: up: `text`: ${uper}: there is no node, input or key 'uper' [did you mean ${upper}?]"
            ],
        ),
        (
            "nodes:\n- {id: up, tool: text.upper,\n   params: {text: '${API_KEY}'}}\n",
            [
                "error f.yaml:3: up: `text`: ${API_KEY}: there is no node, input or key 'API_KEY' "
                "[a flow does not read the environment: declare it in `inputs`]"
            ],
        ),
        (
            "nodes:\n- {id: up, tool: text.upper,\n   params: {text: '${API_KEY ?? 5}'}}\n",
            [
                "warning f.yaml:3: up: `text`: ${API_KEY ?? 5}: there is no node, input or key 'API_KEY' "
                "[a flow does not read the environment: declare it in `inputs`]"
            ],
        ),
        (
            "params: {channel: dev}\nnodes:\n- {id: send, tool: slack.send,\n   params: {text: 'to ${channel}'}}\n",
            [
                "error f.yaml:4: send: `text`: ${channel}: there is no node, input or key 'channel' "
                "[params are given to tools, and templates do not see them: declare it in `inputs`]"
            ],
        ),
        (
            "nodes:\n- {id: now, tool: time.now}\n- {id: up, tool: text.upper,\n   params: {text: '${body}'}}\nedges: [{from: now, to: up}]\n",
            [
                "warning f.yaml:4: up: `text`: ${body}: nothing before node 'up' is known to write 'body' "
                "[`${node.key}` says whose output is meant]"
            ],
        ),
        (
            "nodes:\n- {id: a, tool: text.upper,\n   params: {text: '${b}'}}\n- {id: b, tool: time.now}\nedges: [{from: a, to: b}]\n",
            [
                "error f.yaml:3: a: `text`: ${b}: 'b' cannot have run before node 'a' [add edges that lead from b to it]"
            ],
        ),
        (
            "nodes:\n- {id: a, tool: text.upper,\n   params: {text: '${a}'}}\n",
            [
                "error f.yaml:3: a: `text`: ${a}: 'a' cannot have run before node 'a' [add edges that lead from a to it]"
            ],
        ),
        (
            "nodes:\n- {id: a, tool: text.upper,\n   params: {text: \"${summary ?? ''}\"}}\n- {id: b, tool: text.summarize, params: {text: x}}\n"
            "edges: [{from: a, to: b}]\n",
            [
                "warning f.yaml:3: a: `text`: ${summary ?? ''}: 'b' cannot have run before node 'a' [add edges that lead from b to it]"
            ],
        ),
        (
            "inputs: {text: {type: string}}\nnodes:\n- {id: r, tool: flow.route}\n- {id: s, tool: text.summarize}\n- {id: e, tool: text.upper,\n"
            "   params: {text: '${s.summary}'}}\nedges: [{from: r, to: s}, {from: s, to: e}, {from: r, action: too_short, to: e}]\n",
            [
                "warning f.yaml:6: e: `text`: ${s.summary}: 's' may not have run before node 'e' "
                "[give it a default: ${s.summary ?? …}]"
            ],
        ),
        (
            "nodes:\n- {id: n, tool: time.now}\n- {id: up, tool: text.upper,\n   params: {text: '${n.x}'}}\nedges: [{from: n, action: error, to: up}]\n",
            [
                "error f.yaml:4: up: `text`: ${n.x}: on the way to node 'up', n has failed and left only an error "
                "[${n.error.message} says what went wrong]"
            ],
        ),
        (
            "nodes:\n- {id: n, tool: time.now}\n- {id: up, tool: text.upper,\n   params: {text: '${error.message}'}}\nedges: [{from: n, to: up}]\n",
            [
                "error f.yaml:4: up: `text`: ${error.message}: 'n' and 'up' cannot have failed before node 'up' "
                "[it is written only where an error edge was taken]"
            ],
        ),
        (
            "nodes:\n- {id: s, tool: text.summarize, params: {text: x}}\n- {id: up, tool: text.upper,\n   params: {text: '${s.sumary}'}}\n"
            "edges: [{from: s, to: up}]\n",
            [
                "warning f.yaml:4: up: `text`: ${s.sumary}: s has no key 'sumary' that its schema names [did you mean 'summary'?]"
            ],
        ),
        (
            "nodes:\n- {id: c, tool: math.closed, params: {n: 1}}\n- {id: up, tool: text.upper,\n   params: {text: '${c.b}'}}\n"
            "edges: [{from: c, to: up}]\n",
            ["error f.yaml:4: up: `text`: ${c.b}: c has no key 'b' [there are a]"],
        ),
        (
            "nodes:\n- {id: s, tool: text.summarize, params: {text: x}}\n- {id: up, tool: text.upper,\n   params: {text: '${s.summary.en}'}}\n"
            "edges: [{from: s, to: up}]\n",
            ["error f.yaml:4: up: `text`: ${s.summary.en}: s.summary is a string, which has no keys"],
        ),
        (
            "nodes:\n- {id: s, tool: github.search_code, params: {query: x}}\n- {id: up, tool: text.upper,\n   params: {text: '${s.items.name}'}}\n"
            "edges: [{from: s, to: up}]\n",
            [
                "error f.yaml:4: up: `text`: ${s.items.name}: s.items is a list, which has no keys "
                "[${s.items[0].name} is of the first item]"
            ],
        ),
        (
            "nodes:\n- {id: s, tool: github.search_code, params: {query: x}}\n- {id: up, tool: text.upper,\n   params: {text: '${s.total[0]}'}}\n"
            "edges: [{from: s, to: up}]\n",
            ["error f.yaml:4: up: `text`: ${s.total[0]}: s.total is an integer, which has no items"],
        ),
        (
            "nodes:\n- {id: a, ask:\n   'Which of ${x}?'}\n",
            [
                "error f.yaml:2: a: the question: ${x}: there is no node, input or key 'x' [there are a, a.error, error]"
            ],
        ),
        (
            "nodes:\n- {id: a, ask: {message: '?',\n   schema: {type: nothing}}}\n",
            [
                'error f.yaml:3: a: the schema of the answer is not valid: "nothing" is not valid under any of the schemas '
                "listed in the 'anyOf' keyword"
            ],
        ),
        # --- mappings
        (
            N + "edges: []\nmappings:\n  now:\n    inputs:\n      zone: place\n",
            [
                "error f.yaml:6: now: time.now has no input 'zone' [time.now takes no inputs]",
                "error f.yaml:6: now: `zone`: place: there is no node, input or key 'place' [there are now, now.error, error]",
            ],
        ),
        (
            "nodes:\n- {id: up, tool: text.upper}\nmappings:\n  up: {inputs: {\n    text: '${x}'}}\n",
            ["error f.yaml:5: up: `text`: '${x}': a name is missing [a mapping names a place without ${…}]"],
        ),
        # --- batches
        (
            "nodes:\n- {id: up, tool: text.upper, params: {text: x},\n   batch: {over: '${total}'}}\ninputs: {total: {type: integer}}\n",
            ["error f.yaml:3: up: batch.over is an integer, but should be a list"],
        ),
        (
            "nodes:\n- {id: up, tool: text.upper, params: {text: x}, batch: {\n   over: text}}\n",
            ["error f.yaml:3: up: batch.over is a string, but should be a list"],
        ),
        (
            "nodes:\n- {id: up, tool: text.upper, params: {text: '${itm}'}, batch: {over: [a]}}\n",
            [
                "error f.yaml:2: up: `text`: ${itm}: there is no node, input or key 'itm' [did you mean ${item}?]"
            ],
        ),
        (
            "nodes:\n- {id: s, tool: github.search_code, params: {query: x}}\n- {id: up, tool: text.upper, batch: {over: '${s.items}'},\n"
            "   params: {text: '${item}'}}\nedges: [{from: s, to: up}]\n",
            ["error f.yaml:4: up: `text`: ${item} is an object, but should be a string"],
        ),
        # --- fail_when
        (
            "nodes:\n- {id: now, tool: time.now,\n   fail_when: ok = false}\n",
            ["error f.yaml:3: now: fail_when: '=' is not understood (at column 4) [write == to compare]"],
        ),
        (
            "nodes:\n- {id: s, tool: text.summarize, params: {text: x},\n   fail_when: sumary == null}\n",
            [
                "warning f.yaml:3: s: fail_when: the output has no key 'sumary' that its schema names [did you mean 'summary'?]"
            ],
        ),
        # --- outputs of the flow
        (
            N + "outputs:\n  a: 1\n  b: '${nwo}'\n",
            [
                "warning f.yaml:4: the output 'b': ${nwo}: nothing before the end of the flow is known to write 'nwo' [did you mean ${now}?]"
            ],
        ),
        (
            "nodes:\n- {id: s, tool: text.summarize, params: {text: x}}\noutputs:\n  b: '${y}'\n",
            [
                "error f.yaml:4: the output 'b': ${y}: there is no node, input or key 'y' [there are summary, s, s.error, error]"
            ],
        ),
        (
            "nodes:\n- {id: s, tool: text.summarize, params: {text: x}}\noutputs:\n  b: {value: '${s.summary}', type: integer}\n",
            ["error f.yaml:4: the output 'b': ${s.summary} is a string, but should be an integer"],
        ),
        (
            N + "outputs:\n  b: {value: 5, type: string}\n",
            ["error f.yaml:3: the output 'b' is an integer, but should be a string"],
        ),
        # --- two writers
        (
            "nodes:\n- {id: a, tool: text.summarize, params: {text: x}}\n- {id: b, tool: text.summarize, params: {text: y}}\n"
            "edges: [{from: a, to: b}]\n",
            [
                "warning f.yaml:3: 'summary' is written by 'a' and again by 'b', so that only the second is found under that name "
                "[${a.summary} and ${b.summary} say which is meant; `mappings` can rename one]"
            ],
        ),
        (
            "nodes:\n- {id: a, tool: text.summarize, params: {text: x}}\n- {id: b, tool: text.summarize, params: {text: y}}\n"
            "- {id: c, tool: text.upper, params: {text: '${summary}'}}\nedges: [{from: a, to: b}, {from: b, to: c}]\n",
            [
                "error f.yaml:3: 'summary' is written by 'a' and again by 'b', and node 'c' reads it by that name "
                "[${a.summary} and ${b.summary} say which is meant; `mappings` can rename one]"
            ],
        ),
        (
            "nodes:\n- {id: a, tool: text.summarize, params: {text: x}}\n- {id: b, tool: text.summarize, params: {text: y}}\n"
            "edges: [{from: a, to: b}]\noutputs: {s: '${summary}'}\n",
            [
                "error f.yaml:3: 'summary' is written by 'a' and again by 'b', and the end of the flow reads it by that name "
                "[${a.summary} and ${b.summary} say which is meant; `mappings` can rename one]"
            ],
        ),
        (
            "nodes:\n- {id: a, tool: text.summarize, params: {text: x}}\n- {id: b, tool: text.summarize, params: {text: '${summary}'}}\n"
            "edges: [{from: a, to: b}]\n",
            [],
        ),
        (
            "nodes:\n- {id: a, tool: text.summarize, params: {text: x}}\n- {id: b, tool: text.summarize, params: {text: y}}\n"
            "edges: [{from: a, to: b}]\nmappings: {b: {outputs: {summary: other}}}\noutputs: {s: '${summary}', o: '${other}'}\n",
            [],
        ),
        # --- flows in flows
        (
            "nodes:\n- id: sub\n  flow:\n    nodes:\n    - id: up\n      tool: text.upper\n      params: {text: '${then}'}\n"
            "- {id: then, tool: time.now}\nedges: [{from: sub, to: then}]\n",
            [
                "error f.yaml:7: up: `text`: ${then}: 'then' cannot have run before node 'up' [add edges that lead from then to it]"
            ],
        ),
        (
            "nodes:\n- id: sub\n  flow:\n    nodes:\n    - {id: a, tool: no.such}\n    edges:\n    - {from: a, to: b}\n",
            [
                "error f.yaml:5: a: there is no tool 'no.such' [try `spindle search no.such`]",
                "error f.yaml:7: an edge names 'b', but there is no such node [there are a]",
            ],
        ),
        (
            "nodes:\n- id: sub\n  flow:\n    inputs: {need: {type: string}}\n    nodes:\n    - {id: a, tool: time.now}\n",
            [
                "error f.yaml:2: sub: `need` is missing: nothing provides it "
                "[set 'need' in the node's params, map it, or give the flow an input 'need']"
            ],
        ),
        (
            "nodes:\n- id: sub\n  flow:\n    nodes:\n    - {id: a, tool: time.now}\n    edges: [{from: a, to: a}]\n- {id: z, tool: time.now}\n"
            "edges: [{from: sub, action: x, to: z}]\n",
            [
                "error f.yaml:5: there is no way out of the loop a → a [add an edge out of it for an action, or remove a `default` edge]",
                "error f.yaml:8: 'sub' never chooses the action 'x' [it never ends]",
            ],
        ),
        (
            """
            inputs: {send: {type: string}}
            nodes:
            - {id: send, tool: text.upper, params: {text: x}}
            """,
            [
                "error f.yaml:1: the input 'send' has the name of a node, whose output takes its place [give one of them another name]"
            ],
        ),
        (
            """
            nodes:
            - {id: count, tool: text.count, params: {text: x}}
            mappings: {count: {outputs: {wrods: n}}}
            """,
            ["error f.yaml:3: count: the output has no key 'wrods' to be renamed [did you mean 'words'?]"],
        ),
        (
            """
            inputs: {tags: {type: array, items: {type: integer}}}
            nodes:
            - {id: search, tool: github.search_code, params: {query: x, tags: "${tags}"}}
            """,
            ["error f.yaml:3: search: `tags`: in ${tags}, an item is an integer, but should be a string"],
        ),
        (
            """
            inputs: {ns: {type: array, items: {type: integer}}}
            nodes:
            - {id: a, tool: text.upper, params: {text: "${item}"}, batch: {over: "${ns}"}}
            - {id: b, tool: text.upper, params: {text: "${n}"}, batch: {over: [1, 2], item: n}}
            edges: [{from: a, to: b}]
            """,
            [
                "error f.yaml:3: a: `text`: ${item} is an integer, but should be a string",
                "error f.yaml:4: b: `text`: ${n} is an integer, but should be a string",
            ],
        ),
        (
            """
            nodes:
            - {id: a, tool: text.upper, params: {text: x}, cache: true}
            """,
            [
                "warning f.yaml:2: a: text.upper is not known to be pure, so that its results are not kept [a tool says itself that it is pure or only reads, or `cache.tools` of its source names it]"
            ],
        ),
    ],
)
async def test_what_is_wrong_is_told_with_its_line(text: str, expected: list[str]) -> None:
    assert await problems(text) == expected


async def test_a_flow_without_a_text_is_checked_too() -> None:
    flow = FlowDefinition((NodeDefinition("a", tool="text.upper"), NodeDefinition("b")), (Edge("a", "x"),))
    found = [str(problem) for problem in await check(flow, find, place="flow 'made'")]
    assert found == [
        f"flow 'made': b: a node is exactly one of {', '.join(KINDS)}",
        "flow 'made': an edge names 'x', but there is no such node",
        "flow 'made': 'b' is never reached from 'a'",
    ]
    assert [str(problem) for problem in await check(FlowDefinition(()), find)] == ["the flow has no nodes"]


async def test_a_line_is_checked_with_its_columns() -> None:
    loaded = await read_pipe("now >> upper --text='${nwo}'", find)
    found = await check(loaded.definition, find, loaded.positions, "pipe")
    assert [str(problem) for problem in found] == [
        "pipe:1:14: upper: `text`: ${nwo}: nothing before node 'upper' is known to write 'nwo'"
    ]


@pytest.mark.parametrize(
    "text",
    [
        "upper >> upper >> upper",
        "search_code --query=x >> summarize --text='${prev.items}' >> slack.send --channel dev >> log.write",
        'count >> half >> half >> load --data=\'{"n": "${n}"}\'',
        "odd.stdin >> join --left=a >> upper",
    ],
)
async def test_what_a_line_leaves_open_is_bound_so_that_nothing_is_missing(text: str) -> None:
    loaded = await read_pipe(text, find)
    assert await check(loaded.definition, find) == []


async def test_a_long_chain_and_a_dense_graph_are_checked_in_good_time() -> None:
    names = [f"n{index}" for index in range(3000)]
    nodes = tuple(NodeDefinition(name, tool="math.half") for name in names)
    chain = FlowDefinition(
        nodes,
        tuple(Edge(one, other) for one, other in itertools.pairwise(names)),
        inputs={"n": {"type": "number"}},
        outputs={"n": FlowOutput("${n}")},
    )
    assert await check(chain, find) == []
    actions = ["default", "error", "timeout", "rate_limited", "server_error"]
    dense = tuple(
        Edge(name, names[(index * 7 + turn * 13) % 300], action)
        for index, name in enumerate(names[:300])
        for turn, action in enumerate(actions)
    )
    looping = FlowDefinition(nodes[:300], dense, inputs={"n": {"type": "number"}})
    assert all(problem.message for problem in await check(looping, find))


async def test_a_schema_with_references_is_followed() -> None:
    shared = {"$defs": {"page": {"type": "object", "properties": {"title": {"type": "string"}}}}}
    given = {**schema(page={"$ref": "#/$defs/page"}), **shared}
    own = {"t.page": tool("t.page", gives=given), "t.num": tool("t.num", schema("n", n="integer"))}

    async def find_own(name: str) -> Tool:
        return own[name]

    text = """
    nodes: [{id: p, tool: t.page}, {id: n, tool: t.num, params: {n: "${p.page.title}"}}]
    edges: [{from: p, to: n}]
    """
    assert await problems(text, find_own) == [
        "error f.yaml:1: n: `n`: ${p.page.title} is a string, but should be an integer"
    ]


@examples(60)
@given(DEFINITIONS)
async def test_any_flow_can_be_checked(definition: FlowDefinition) -> None:
    async def find_some(name: str) -> Tool:
        found = list(TOOLS.values())
        index = sum(map(ord, name)) % (len(found) + 1)
        if index == len(found):
            raise NotFoundError(f"there is no tool {name!r}")
        return found[index]

    for problem in await check(definition, find_some, place="f"):
        assert str(problem).startswith("f: ")


async def test_a_flow_is_checked_against_a_real_server(
    open_sources: OpenSources, stdio_server: StdioServers
) -> None:
    text = """
    nodes:
    - {id: echo, tool: mcp.echo, params: {text: 5}}
    - {id: point, tool: mcp.point, params: {}}
    - {id: last, tool: mcp.ecko}
    - {id: again, tool: mcp.echo, params: {text: "${point.x}"}}
    edges:
    - {from: echo, to: point}
    - {from: point, to: last}
    - {from: last, to: again}
    """
    async with open_sources({"mcp": stdio_server()}) as app:
        found = await problems(text, app.show)
        saved = await with_fingerprints(read(textwrap.dedent(GOOD_REAL), "yaml").definition, app.show)
        assert await check(saved, app.show) == []
    assert found == [
        'error f.yaml:2: echo: `text`: 5 is not of type "string"',
        "error f.yaml:4: last: there is no tool 'mcp.ecko' [did you mean 'mcp.echo'?]",
        "error f.yaml:5: again: `text`: ${point.x} is a number, but should be a string",
    ]
    assert [len(node.fingerprint or "") for node in saved.nodes] == [64, 64]


GOOD_REAL = """
nodes: [{id: echo, tool: mcp.echo, params: {text: x}}, {id: read, tool: mcp.read}]
edges: [{from: echo, to: read}]
"""


async def test_saving_writes_down_which_tools_were_meant_and_nothing_else() -> None:
    inner = FlowDefinition((NodeDefinition("in", tool="now"),))
    flow = FlowDefinition(
        (
            NodeDefinition("a", tool="upper", params={"text": "x"}),
            NodeDefinition("q", ask=Question("?")),
            NodeDefinition("s", flow=inner),
        ),
        (Edge("a", "q"), Edge("q", "s")),
        name="n",
    )
    saved = await with_fingerprints(flow, find)
    assert [node.tool for node in saved.nodes] == ["text.upper", None, None]
    assert saved.nodes[0].fingerprint == TOOLS["text.upper"].fingerprint
    assert saved.nodes[1] == flow.nodes[1]
    assert saved.nodes[2].flow is not None
    assert saved.nodes[2].flow.nodes[0].fingerprint == TOOLS["time.now"].fingerprint
    assert replace(saved, nodes=flow.nodes) == flow
    assert await with_fingerprints(saved, find) == saved


async def test_a_flow_with_a_tool_that_is_not_there_is_not_saved() -> None:
    with pytest.raises(NotFoundError, match=r"node 'a': there is no tool 'text.uper'") as caught:
        await with_fingerprints(FlowDefinition((NodeDefinition("a", tool="text.uper"),)), find)
    assert caught.value.hint == "did you mean 'text.upper'?"


def test_a_default_that_is_text_stands_in_quotes() -> None:
    for text in ("[" * 100_000, "9" * 5000, "x y"):
        with pytest.raises(ExpressionError):
            parse("${a ?? " + text + "}")
    [reference] = parse("${a ?? 'x y'}")
    assert isinstance(reference, Reference)
    assert reference.resolve(lambda path: MISSING) == "x y"
