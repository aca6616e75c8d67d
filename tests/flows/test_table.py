"""One flow a row: templates, mappings, precedence, actions, nesting and errors."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import pytest

from servers.flow_tools import OpenFlows
from spindle import Finished, SpindleError
from spindle.flows.problems import NOWHERE
from spindle.flows.text.document import from_document

Document = dict[str, Any]


@dataclass
class Row:
    name: str
    nodes: list[Document]
    gives: Any = None
    error: str | None = None
    """Part of the message."""
    inputs: Document = field(default_factory=dict[str, Any])
    edges: list[tuple[str, ...]] | None = None
    """(from, to) or (from, action, to). None: one after the other."""
    more: Document = field(default_factory=dict[str, Any])


def use(tool: str, id: str | None = None, **more: Any) -> Document:
    return {"id": id or tool.rpartition(".")[2], "tool": tool, **more}


def out(**outputs: Any) -> Document:
    return {"outputs": outputs}


def handled(tool: str, action: str, category: str) -> Row:
    return Row(
        f"{tool} takes the edge {action}",
        [use(f"api.{tool}", "work"), use("same", "branch", params={"value": "${work.error.category}"})],
        {"value": category},
        edges=[("work", action, "branch")],
    )


TEMPLATES = [
    Row("a text", [use("upper", params={"text": "abc"})], "ABC"),
    Row("an input", [use("upper", params={"text": "${word}"})], "HI", inputs={"word": "hi"}),
    Row(
        "an input inside a text", [use("upper", params={"text": "<${word}>"})], "<HI>", inputs={"word": "hi"}
    ),
    Row("two in one text", [use("upper", params={"text": "${a}-${b}"})], "X-Y", inputs={"a": "x", "b": "y"}),
    Row("a number keeps its type", [use("add", params={"a": "${n}"})], 42, inputs={"n": 41}),
    Row("a number inside a text", [use("upper", params={"text": "n=${n}"})], "N=41", inputs={"n": 41}),
    Row(
        "a boolean keeps its type",
        [use("same", params={"value": "${x}"})],
        {"value": False},
        inputs={"x": False},
    ),
    Row(
        "a boolean inside a text is JSON",
        [use("same", params={"value": "is ${x}"})],
        {"value": "is false"},
        inputs={"x": False},
    ),
    Row("null keeps its type", [use("same", params={"value": "${x}"})], {"value": None}, inputs={"x": None}),
    Row(
        "a list keeps its type",
        [use("same", params={"value": "${x}"})],
        {"value": [1, "a"]},
        inputs={"x": [1, "a"]},
    ),
    Row(
        "a list inside a text is JSON",
        [use("same", params={"value": "x${x}"})],
        {"value": 'x[1,"a"]'},
        inputs={"x": [1, "a"]},
    ),
    Row(
        "an object keeps its type",
        [use("same", params={"value": "${x}"})],
        {"value": {"k": 1}},
        inputs={"x": {"k": 1}},
    ),
    Row(
        "templates in nested values",
        [use("same", params={"value": {"a": ["${x}", {"b": "${x}!"}]}})],
        {"value": {"a": [1, {"b": "1!"}]}},
        inputs={"x": 1},
    ),
    Row(
        "a key of an input",
        [use("same", params={"value": "${x.a.b}"})],
        {"value": 3},
        inputs={"x": {"a": {"b": 3}}},
    ),
    Row(
        "an item of a list",
        [use("same", params={"value": "${x[1]}"})],
        {"value": "b"},
        inputs={"x": ["a", "b"]},
    ),
    Row(
        "the last item of a list",
        [use("same", params={"value": "${x[-1]}"})],
        {"value": "b"},
        inputs={"x": ["a", "b"]},
    ),
    Row(
        "an item after a dot",
        [use("same", params={"value": "${x.0.n}"})],
        {"value": 1},
        inputs={"x": [{"n": 1}]},
    ),
    Row(
        "an odd name in brackets",
        [use("same", params={"value": "${x['a b']}"})],
        {"value": 1},
        inputs={"x": {"a b": 1}},
    ),
    Row(
        "the output of a node",
        [use("upper", "one", params={"text": "a"}), use("same", params={"value": "${one}"})],
        {"value": "A"},
    ),
    Row(
        "a key of a node's output",
        [use("person", "p"), use("same", params={"value": "${p.name}"})],
        {"value": "Ada"},
    ),
    Row(
        "deep in a node's output",
        [use("person", "p"), use("same", params={"value": "${p.born.place.city}"})],
        {"value": "London"},
    ),
    Row(
        "an item deep in an output",
        [use("person", "p"), use("same", params={"value": "${p.jobs[1].title}"})],
        {"value": "poet"},
    ),
    Row(
        "the natural key of a node's plain output",
        [use("upper", "one", params={"text": "a"}), use("same", params={"value": "${one.upper}"})],
        {"value": "A"},
    ),
    Row("a default for what is missing", [use("same", params={"value": "${x ?? 3}"})], {"value": 3}),
    Row("a default for null", [use("same", params={"value": "${x ?? 3}"})], {"value": 3}, inputs={"x": None}),
    Row(
        "no default for false",
        [use("same", params={"value": "${x ?? 3}"})],
        {"value": False},
        inputs={"x": False},
    ),
    Row(
        "a default that is a bare word",
        [use("same", params={"value": "${x ?? none}"})],
        error="there is no node, input or key 'none'",
    ),
    Row("a default in quotes", [use("same", params={"value": "${x ?? '3'}"})], {"value": "3"}),
    Row("a default that is a list", [use("same", params={"value": "${x ?? [1, 2]}"})], {"value": [1, 2]}),
    Row(
        "a default that is an object",
        [use("same", params={"value": '${x ?? {"a": 1}}'})],
        {"value": {"a": 1}},
    ),
    Row("a default that is null", [use("same", params={"value": "${x ?? null}"})], {"value": None}),
    Row(
        "a default that is a template",
        [use("same", params={"value": "${x ?? ${y}}"})],
        {"value": 9},
        inputs={"y": 9},
    ),
    Row("a default of a default", [use("same", params={"value": "${x ?? ${y ?? 7}}"})], {"value": 7}),
    Row(
        "a default inside a text", [use("same", params={"value": "hi ${x ?? 'you'}!"})], {"value": "hi you!"}
    ),
    Row(
        "a default for a missing key",
        [use("same", params={"value": "${x.a ?? 1}"})],
        {"value": 1},
        inputs={"x": {}},
    ),
    Row("an escaped template", [use("same", params={"value": "$${x}"})], {"value": "${x}"}),
    Row("a dollar alone", [use("same", params={"value": "5$ {x}"})], {"value": "5$ {x}"}),
    Row(
        "something missing",
        [use("same", params={"value": "${nope}"})],
        error="there is no node, input or key 'nope'",
    ),
    Row(
        "a missing key",
        [use("person", "p"), use("same", params={"value": "${p.nmae}"})],
        error="${p.nmae} has no value",
    ),
    Row(
        "an index too far",
        [use("same", params={"value": "${x[5]}"})],
        error="${x[5]} has no value",
        inputs={"x": [1]},
    ),
    Row(
        "the environment is not read",
        [use("same", params={"value": "${HOME}"})],
        error="there is no node, input or key 'HOME'",
    ),
    Row("a template that is not closed", [use("same", params={"value": "${x"})], error="not closed"),
    Row(
        "a template without a name", [use("same", params={"value": "${}"})], error="an expression is missing"
    ),
]

ARGUMENTS = [
    Row("a shared key of the same name", [use("upper")], "HI", inputs={"text": "hi"}),
    Row(
        "params win over the shared key",
        [use("upper", params={"text": "mine"})],
        "MINE",
        inputs={"text": "hi"},
    ),
    Row(
        "a mapping wins over the shared key",
        [use("upper")],
        "OTHER",
        inputs={"text": "hi", "x": "other"},
        more={"mappings": {"upper": {"inputs": {"text": "x"}}}},
    ),
    Row(
        "params win over a mapping",
        [use("upper", params={"text": "mine"})],
        "MINE",
        inputs={"x": "other"},
        more={"mappings": {"upper": {"inputs": {"text": "x"}}}},
    ),
    Row(
        "a mapping reads deep",
        [use("person", "p"), use("upper")],
        "POET",
        more={"mappings": {"upper": {"inputs": {"text": "p.jobs[1].title"}}}},
    ),
    Row(
        "a mapping from nowhere",
        [use("upper")],
        error="upper: `text`: nowhere: there is no node, input or key 'nowhere'",
        more={"mappings": {"upper": {"inputs": {"text": "nowhere"}}}},
    ),
    Row(
        "flow params reach a node",
        [use("join", params={"a": "x", "b": "y"})],
        "x+y",
        more={"params": {"by": "+"}},
    ),
    Row(
        "a node's own params win over the flow's",
        [use("join", params={"a": "x", "b": "y", "by": "-"})],
        "x-y",
        more={"params": {"by": "+"}},
    ),
    Row(
        "flow params win over a mapping",
        [use("upper")],
        "FLOW",
        inputs={"x": "other"},
        more={"params": {"text": "flow"}, "mappings": {"upper": {"inputs": {"text": "x"}}}},
    ),
    Row(
        "flow params that a tool does not have are not sent",
        [use("upper", params={"text": "a"})],
        "A",
        more={"params": {"by": "+"}},
    ),
    Row(
        "flow params may be templates",
        [use("upper")],
        "HI",
        inputs={"w": "hi"},
        more={"params": {"text": "${w}"}},
    ),
    Row("an omitted optional is omitted", [use("optional")], {"text": None, "limit": 5}),
    Row(
        "an optional is read from the shared key",
        [use("optional")],
        {"text": None, "limit": 2},
        inputs={"limit": 2},
    ),
    Row("an explicit null stays null", [use("optional", params={"text": None})], {"text": None, "limit": 5}),
    Row("a missing required argument", [use("upper")], error="upper: `text` is missing: nothing provides it"),
    Row(
        "an argument that the tool does not have",
        [use("upper", params={"text": "a", "txet": "b"})],
        error="txet",
    ),
    Row("an argument of the wrong type", [use("add", params={"a": "one"})], error="a"),
    Row(
        "the output of one node is the input of the next by name",
        [use("same", params={"value": "abc"}), use("same", "again")],
        {"value": "abc"},
    ),
]

OUTPUTS = [
    Row(
        "keys of an object are written",
        [use("count", params={"text": "a b"}), use("add", params={"a": "${words}"})],
        3,
    ),
    Row(
        "nested keys are written one level deep",
        [use("person"), use("same", params={"value": "${born.year}"})],
        {"value": 1815},
    ),
    Row(
        "a plain output is written under the tool's name",
        [use("upper", "u", params={"text": "a"}), use("same", params={"value": "${upper}"})],
        {"value": "A"},
    ),
    Row(
        "and under the id of the node",
        [use("upper", "u", params={"text": "a"}), use("same", params={"value": "${u}"})],
        {"value": "A"},
    ),
    Row(
        "a list is an output too", [use("items"), use("same", params={"value": "${items[0]}"})], {"value": 3}
    ),
    Row(
        "two nodes of one tool keep their own",
        [
            use("upper", "one", params={"text": "a"}),
            use("upper", "two", params={"text": "b"}),
            use("join", params={"a": "${one}", "b": "${two}"}),
        ],
        "A B",
    ),
    Row(
        "an output is renamed",
        [use("count", params={"text": "a b"}), use("add", params={"a": "${n}"})],
        3,
        more={"mappings": {"count": {"outputs": {"words": "n"}}}},
    ),
    Row(
        "a renamed output is not under its old name",
        [use("count", params={"text": "a b"}), use("same", params={"value": "${words}"})],
        error="has no value",
        more={"mappings": {"count": {"outputs": {"words": "n"}}}},
    ),
    Row(
        "a renamed plain output",
        [use("upper", "u", params={"text": "a"}), use("same", params={"value": "${loud}"})],
        {"value": "A"},
        more={"mappings": {"u": {"outputs": {"upper": "loud"}}}},
    ),
    Row(
        "an output does not take another node's id",
        [
            use("same", "name", params={"value": 1}),
            use("person", "p"),
            use("same", "last", params={"value": "${name.value}"}),
        ],
        {"value": 1},
    ),
    Row("nothing is an output", [use("nothing"), use("same", params={"value": 1})], {"value": 1}),
    Row(
        "the result is the last node's output",
        [use("upper", params={"text": "a"}), use("count", params={"text": "a b"})],
        {"words": 2, "letters": 3},
    ),
    Row("declared outputs", [use("count", params={"text": "a b"})], {"n": 2}, more=out(n="${words}")),
    Row(
        "an output with a type",
        [use("count", params={"text": "a b"})],
        {"n": 2},
        more=out(n={"value": "${words}", "type": "integer"}),
    ),
    Row(
        "an output made of text",
        [use("count", params={"text": "a b"})],
        {"n": "2 words"},
        more=out(n="${words} words"),
    ),
    Row(
        "an output of a branch that was not taken fails the run",
        [use("upper", "a", params={"text": "x"}), use("upper", "b", params={"text": "y"})],
        error="outputs.b: ${b} has no value when the flow is done",
        edges=[("a", "timeout", "b")],
        more=out(a="${a}", b="${b}"),
    ),
    Row(
        "an output that may be missing is left out",
        [use("upper", "a", params={"text": "x"}), use("upper", "b", params={"text": "y"})],
        {"a": "X"},
        edges=[("a", "timeout", "b")],
        more=out(a="${a}", b={"value": "${b}", "required": False}),
    ),
    Row(
        "an output with a default",
        [use("upper", "a", params={"text": "x"}), use("upper", "b", params={"text": "y"})],
        {"a": "X", "b": None},
        edges=[("a", "timeout", "b")],
        more=out(a="${a}", b="${b ?? null}"),
    ),
    Row(
        "an output of a node that is never reached",
        [use("upper", "a", params={"text": "x"}), use("upper", "b", params={"text": "y"})],
        error="'b' cannot have run before the end of the flow",
        edges=[],
        more=out(a="${a}", b="${b}"),
    ),
    Row(
        "an output of another type than it declares",
        [use("same", params={"value": "${x}"})],
        error="outputs.n",
        inputs={"x": "text"},
        more=out(n={"value": "${same.value}", "type": "integer"}),
    ),
    Row(
        "an output with an item of another type than it declares",
        [use("same", params={"value": "${x}"})],
        error="outputs.n[1]",
        inputs={"x": [1, "b"]},
        more=out(n={"value": "${same.value}", "type": "array", "items": {"type": "integer"}}),
    ),
    Row(
        "an output that is not a template",
        [use("nothing")],
        {"x": {"fixed": [1]}},
        more=out(x={"value": {"fixed": [1]}}),
    ),
    Row(
        "an input's default",
        [use("upper", params={"text": "${word}"})],
        "HI",
        more={"inputs": {"word": {"type": "string", "default": "hi"}}},
    ),
    Row(
        "a given input wins over its default",
        [use("upper", params={"text": "${word}"})],
        "YO",
        inputs={"word": "yo"},
        more={"inputs": {"word": {"type": "string", "default": "hi"}}},
    ),
    Row(
        "an input that is not required",
        [use("upper", params={"text": "${word ?? 'none'}"})],
        "NONE",
        more={"inputs": {"word": {"type": "string", "required": False}}},
    ),
    Row("a missing input", [use("nothing")], error="word", more={"inputs": {"word": {"type": "string"}}}),
    Row(
        "an input of the wrong type",
        [use("nothing")],
        error="word",
        inputs={"word": 1},
        more={"inputs": {"word": {"type": "string"}}},
    ),
    Row(
        "an unknown input",
        [use("nothing")],
        error="wrod",
        inputs={"wrod": "x", "word": "y"},
        more={"inputs": {"word": {"type": "string"}}},
    ),
]

ACTIONS = [
    handled("fail_rate_limited", "rate_limited", "rate_limited"),
    handled("fail_unauthorized", "auth_failed", "auth"),
    handled("fail_forbidden", "auth_failed", "permission"),
    handled("fail_missing", "resource_missing", "not_found"),
    handled("fail_gone", "resource_missing", "not_found"),
    handled("fail_slow", "timeout", "timeout"),
    handled("fail_broken", "server_error", "server"),
    handled("fail_refused", "error", "client"),
    handled("fail_rate_limited", "error", "rate_limited"),
    handled("fail_broken", "error", "server"),
    Row(
        "its own edge goes before the general one",
        [
            use("api.fail_rate_limited", "work"),
            use("same", "own", params={"value": "own"}),
            use("same", "general", params={"value": "general"}),
        ],
        {"value": "own"},
        edges=[("work", "error", "general"), ("work", "rate_limited", "own")],
    ),
    Row(
        "an error without an edge fails the flow",
        [use("api.fail_broken", "work"), use("nothing")],
        error="it is broken",
    ),
    Row(
        "an edge for another error does not help",
        [use("api.fail_broken", "work"), use("nothing")],
        error="it is broken",
        edges=[("work", "rate_limited", "nothing")],
    ),
    Row(
        "what a tool reports takes the error edge",
        [use("fail", params={"why": "tired"}), use("same", params={"value": "${fail.error.text}"})],
        {"value": "ValueError: tired"},
        edges=[("fail", "error", "same")],
    ),
    Row(
        "what a tool reports fails the flow",
        [use("fail", params={"why": "tired"}), use("nothing")],
        error="ValueError: tired",
    ),
    Row(
        "the error is under its own key",
        [use("fail"), use("same", params={"value": "${error.action}"})],
        {"value": "error"},
        edges=[("fail", "error", "same")],
    ),
    Row(
        "no error edge on success",
        [use("upper", params={"text": "a"}), use("same", params={"value": "bad"})],
        "A",
        edges=[("upper", "error", "same")],
    ),
    Row(
        "a failure inside a success",
        [
            use("report", params={"ok": False, "error": "full"}, fail_when="ok == false"),
            use("same", params={"value": "${report.error.structured.error}"}),
        ],
        {"value": "full"},
        edges=[("report", "error", "same")],
    ),
    Row(
        "a success that could have been a failure",
        [use("report", params={"ok": True}, fail_when="ok == false"), use("same", params={"value": "fine"})],
        {"value": "fine"},
    ),
    Row(
        "a failure inside a success without an edge",
        [use("report", params={"ok": False}, fail_when="not ok")],
        error="reported a failure: not ok",
    ),
    Row(
        "a condition that cannot be read",
        [use("report", params={"ok": False}, fail_when="ok ==")],
        error="fail_when",
    ),
    Row("a tool that does not exist", [use("uper", params={"text": "a"})], error="uper"),
    Row(
        "a bad argument takes the error edge",
        [use("add", params={"a": "${x}"}), use("same", params={"value": "${error.category}"})],
        {"value": "invalid_arguments"},
        inputs={"x": "one"},
        edges=[("add", "error", "same")],
    ),
    Row(
        "a joined branch",
        [
            use("fail"),
            use("same", "bad", params={"value": "bad"}),
            use("same", "good", params={"value": "good"}),
            use("same", "end", params={"value": "${bad.value ?? ${good.value}}"}),
        ],
        {"value": "bad"},
        edges=[("fail", "good"), ("fail", "error", "bad"), ("bad", "end"), ("good", "end")],
    ),
    Row(
        "a loop over an error is stopped",
        [use("fail")],
        error="was visited 3 times",
        edges=[("fail", "error", "fail")],
        more={"max_visits": 3},
    ),
    Row("an attempt more does not help what cannot pass", [use("uper", retry={"attempts": 3})], error="uper"),
]

NESTED = [
    Row(
        "a flow in a flow",
        [
            {"id": "inner", "flow": {"nodes": [use("upper", params={"text": "${w}"})]}},
            use("same", params={"value": "${upper}"}),
        ],
        {"value": "HI"},
        inputs={"w": "hi"},
    ),
    Row(
        "params of an inner flow",
        [
            {
                "id": "inner",
                "flow": {"nodes": [use("join", params={"a": "x", "b": "y"})], "params": {"by": "."}},
            }
        ],
        "x.y",
    ),
    Row(
        "params of the outer flow reach the inner one",
        [{"id": "inner", "flow": {"nodes": [use("join", params={"a": "x", "b": "y"})]}}],
        "x+y",
        more={"params": {"by": "+"}},
    ),
    Row(
        "the inner flow's params win",
        [
            {
                "id": "inner",
                "flow": {"nodes": [use("join", params={"a": "x", "b": "y"})], "params": {"by": "."}},
            }
        ],
        "x.y",
        more={"params": {"by": "+"}},
    ),
    Row(
        "the node's params win over its flow's",
        [
            {
                "id": "inner",
                "params": {"by": "!"},
                "flow": {"nodes": [use("join", params={"a": "x", "b": "y"})], "params": {"by": "."}},
            }
        ],
        "x!y",
    ),
    Row(
        "an error inside fails the outer flow",
        [{"id": "inner", "flow": {"nodes": [use("fail", params={"why": "deep"})]}}, use("nothing")],
        error="ValueError: deep",
    ),
    Row(
        "an inner flow handles its own error",
        [
            {
                "id": "inner",
                "flow": {
                    "nodes": [use("fail"), use("same", params={"value": "handled"})],
                    "edges": [{"from": "fail", "action": "error", "to": "same"}],
                },
            },
            use("upper", params={"text": "${value}"}),
        ],
        "HANDLED",
    ),
    Row(
        "two deep",
        [
            {
                "id": "a",
                "flow": {"nodes": [{"id": "b", "flow": {"nodes": [use("upper", params={"text": "deep"})]}}]},
            }
        ],
        "DEEP",
    ),
]

BATCHES = [
    Row(
        "a batch",
        [use("upper", params={"text": "${item}"}, batch={"over": "${words}"})],
        ["A", "B"],
        inputs={"words": ["a", "b"]},
    ),
    Row("an empty batch", [use("upper", params={"text": "${item}"}, batch={"over": []})], []),
    Row(
        "a batch of objects",
        [use("add", params={"a": "${x.n}", "b": "${x.m ?? 10}"}, batch={"over": "${list}", "item": "x"})],
        [3, 13],
        inputs={"list": [{"n": 1, "m": 2}, {"n": 3}]},
    ),
    Row(
        "a batch over another node's output",
        [use("items"), use("add", params={"a": "${item}"}, batch={"over": "${items}"})],
        [4, 2, 3],
    ),
    Row(
        "a batch over no list",
        [use("upper", params={"text": "${item}"}, batch={"over": "${w}"})],
        error="not a list",
        inputs={"w": "abc"},
    ),
    Row(
        "a failed item fails the batch, and is named",
        [use("add", params={"a": "${item}"}, batch={"over": [1, "x", 3], "concurrency": 1})],
        error="item 1:",
    ),
    Row(
        "errors of items are kept",
        [use("add", params={"a": "${item}"}, batch={"over": [1, "x", 3], "keep_errors": True})],
        [2, None, 4],
    ),
    Row(
        "failed items are named",
        [
            use("add", params={"a": "${item}"}, batch={"over": [1, "x", 3], "keep_errors": True}),
            use("same", params={"value": "${add.failed[0].index}"}),
        ],
        {"value": 1},
    ),
    Row(
        "a batch takes an error edge",
        [
            use("add", params={"a": "${item}"}, batch={"over": "${xs}"}),
            use("same", params={"value": "${error.details.failed[0].index}"}),
        ],
        {"value": 0},
        inputs={"xs": ["x"]},
        edges=[("add", "error", "same")],
    ),
]


def values(id: str, more: Document | None = None, /, **given: Any) -> Document:
    return {"id": id, "transform": given, **(more or {})}


def said(text: str) -> Document:
    return use("upper", text, params={"text": text})


def switch(name: str, *whens: str, gives: Any = None, error: str | None = None, **more: Any) -> Row:
    """One node that leads, by conditions, to nodes that say their own names: a, b, c."""
    targets = "abc"[: len(whens)]
    return Row(
        name,
        [use("same", "start", params={"value": "${x}"}), *map(said, targets)],
        gives,
        error,
        inputs={"x": more.pop("x", 1)},
        edges=[
            ("start", when if when == "else" else f"when {when}", target)
            for when, target in zip(whens, targets, strict=True)
        ],
        more={"inputs": {"x": more.pop("schema", {})}, **more},
    )


def chosen(when: str, x: Any, expected: bool) -> Row:
    return switch(f"{when} of {x!r}", when, "else", gives="A" if expected else "B", x=x)


CONDITIONS = [
    switch("the first condition that holds", "x > 5", "x > 2", "else", gives="A", x=9),
    switch("the second condition", "x > 5", "x > 2", "else", gives="B", x=3),
    switch("else, where none holds", "x > 5", "x > 2", "else", gives="C", x=1),
    switch("the first of two that hold", "x > 1", "x > 0", "else", gives="A", x=2),
    switch("a condition over an output", "start.value == 1", "else", gives="A"),
    switch("a condition over a natural key", "value == 2", "else", gives="B"),
    switch("no condition that holds", "x > 5", "x > 3",
           error="none of its conditions holds: when x > 5, when x > 3"),
    switch("no condition that holds, and the flow may end", "x > 5", gives={"value": 1}, on_unknown="end"),
    switch("a switch on text", "x == 'red'", "x == 'green'", "else", gives="B", x="green"),
    switch("a switch that is complete", "x == 'red'", "x == 'green'", gives="B", x="green",
           schema={"enum": ["red", "green"]}),
    switch("a boolean and its opposite", "x", "not x", gives="B", x=False, schema={"type": "boolean"}),
    switch("a name that is not there", "start.nothing > 1", "else", error="start.nothing has no value"),
    switch("a name that may not be there", "start.nothing ?? 5 > 1", "else", gives="A"),
    switch("an order that is none", "x > 1", "else", error="text > a number: only numbers and texts", x="9"),
    switch("a number in a text", "number(x) > 1", "else", gives="A", x="9"),
    chosen("len(x) > 1", [1, 2], True), chosen("len(x) > 1", [], False), chosen("'a' in x", "cat", True),
    chosen("any(x, item > 2)", [1, 3], True), chosen("all(x, item > 2)", [1, 3], False),
    chosen("x in ['a', 'b']", "b", True), chosen("x", "", False), chosen("x", {"a": 1}, True),
    chosen("not x", None, True), chosen("x.a.b == null", {"a": {"b": None}}, True),
    chosen("x.n % 2 == 0", {"n": 4}, True), chosen("lower(x) == 'yes'", "YES", True),
    chosen("starts_with(x, 'ab')", "abc", True), chosen("sum(x, item.n) >= 10", [{"n": 4}, {"n": 6}], True),
    chosen("${x} == 1", 1, True), chosen("x == 1 and x != 2 or false", 1, True),
    chosen("parse_date(x) < parse_date('2027-01-01')", "2026-11-17", True),
    Row(
        "a condition of an action",
        [use("fail", params={"why": "${x}"}), said("a"), said("b")],
        "A",
        inputs={"x": "no room"},
        edges=[("fail", "error when 'room' in error.message", "a"), ("fail", "error else", "b")],
    ),
    Row(
        "a condition after an inline flow",
        [{"id": "in", "flow": {"nodes": [use("add", params={"a": 1})]}}, said("a"), said("b")],
        "B",
        edges=[("in", "when add > 5", "a"), ("in", "else", "b")],
    ),
    Row(
        "a condition in an inline flow",
        [{"id": "in", "flow": {"nodes": [use("add", params={"a": "${n}"}), said("a"), said("b")],
                               "edges": [{"from": "add", "to": "a", "when": "add > 5"},
                                         {"from": "add", "to": "b", "when": "else"}]}}],
        "A",
        inputs={"n": 7},
    ),
    Row(
        "a loop by an edge with a condition",
        [values("begin", n=0, seen=[]), values("again", n="${n + 1}", seen="${seen + [n]}")],
        {"n": 4, "seen": [0, 1, 2, 3]},
        edges=[("begin", "again"), ("again", "when n < 4", "again")],
        more={"on_unknown": "end"},
    ),
    Row(
        "a loop whose condition always holds",
        [values("again", n="${n + 1}")],
        error="was visited 20 times",
        edges=[("again", "when n > 0", "again")],
        more={"max_visits": 20, "on_unknown": "end", "inputs": {"n": {"default": 0}}},
    ),
    Row(
        "a loop without a way out",
        [values("again", n="${n + 1}")],
        error="there is no way out of the loop again",
        edges=[("again", "when n > 0", "again"), ("again", "else", "again")],
        more={"inputs": {"n": {"default": 0}}},
    ),
]  # fmt: skip

VALUES = [
    Row("values by name", [values("t", a=1, b="x", c=[True])], {"a": 1, "b": "x", "c": [True]}),
    Row("values of expressions", [use("items"), values("t", most="${max(items)}", all="${sort(items)}")],
        {"most": 3, "all": [1, 2, 3]}),
    Row("a text of values", [use("person"), values("t", line="${person.name}: ${join(person.tags, '/')}")],
        {"line": "Ada: math/code"}),
    Row("a value in an object", [values("t", o={"a": ["${x * 2}"]})], {"o": {"a": [6]}}, inputs={"x": 3}),
    Row("values that others read by name", [values("t", text="abc"), use("upper")], "ABC"),
    Row("values that others read by node",
        [values("t", deep={"a": 1}), use("same", params={"value": "${t.deep.a}"})], {"value": 1}),
    Row("values for each item", [values("t", {"batch": {"over": [1, 2]}}, n="${item * 10}")],
        [{"n": 10}, {"n": 20}]),
    Row("values that fail", [values("t", {"fail_when": "n > 1"}, n=2), said("a")], "A",
        edges=[("t", "error", "a")]),
    Row("values that are renamed", [values("t", n=2), use("add", params={"a": "${m}"})], 3,
        more={"mappings": {"t": {"outputs": {"n": "m"}}}}),
    Row("a value that is missing", [values("t", n="${nowhere}")],
        error="there is no node, input or key 'nowhere'"),
    Row("a value that cannot be calculated", [values("t", n="${x + 1}")],
        error="t: `n`: ${x + 1}: a string + an integer cannot be calculated", inputs={"x": "a"},
        more={"inputs": {"x": {"type": "string"}}}),
    Row("values that cannot be calculated then", [values("t", n="${x + 1}")],
        error="text + a number cannot be calculated", inputs={"x": "a"}),
    Row("values do not see each other", [values("t", b="${a}", a=1)], {"a": 1, "b": 0}, inputs={"a": 0}),
    Row("arithmetic in an argument", [use("add", params={"a": "${x * 2 - 1}", "b": "${len('abc')}"})], 8,
        inputs={"x": 3}),
    Row("a list for a batch",
        [use("add", params={"a": "${item}"}, batch={"over": "${filter(xs, item > 1)}"})], [3, 4],
        inputs={"xs": [1, 2, 3]}),
    Row("an expression as an output", [use("items")], {"n": 3, "first": 3},
        more=out(n="${len(items)}", first="${items[0]}")),
    Row("an expression of the wrong type", [use("add", params={"a": "${text(1)}"})],
        error="add: `a`: ${text(1)} is a string, but should be an integer"),
    Row("a function that does not exist", [values("t", n="${lne(x)}")], error="there is no function 'lne'",
        inputs={"x": 1}),
    Row("the time at which it began", [values("t", same="${now() == now() and now() > 1000}")],
        {"same": True}),
]  # fmt: skip


def rounds(
    carry: Document, outputs: Document, again: str, limit: int, *nodes: Document, **more: Any
) -> Document:
    flow = {"nodes": [*nodes], "outputs": outputs}
    return {"id": "loop", "loop": {"carry": carry, "while": again, "limit": limit}, "flow": flow, **more}


ADDING = use("add", params={"a": "${n}"})
LOOPS = [
    Row("a loop with a value", [rounds({"n": 0}, {"n": "${add}"}, "n < 5", 10, ADDING)], {"n": 5}),
    Row("a loop with two values",
        [rounds({"n": 0, "seen": []}, {"n": "${add}", "seen": "${seen + [n]}"}, "n < 3", 10, ADDING)],
        {"n": 3, "seen": [0, 1, 2]}),
    Row("a loop of one round", [rounds({"n": 9}, {"n": "${add}"}, "n < 5", 10, ADDING)], {"n": 10}),
    Row("a loop that begins with an input", [rounds({"n": "${from}"}, {"n": "${add}"}, "n < 5", 10, ADDING)],
        {"n": 5}, inputs={"from": 2}),
    Row("a loop whose limit is reached", [rounds({"n": 0}, {"n": "${add}"}, "true or n", 3, ADDING)],
        error="`true or n` is still true after 3 rounds"),
    Row("a loop that may take its whole limit", [rounds({"n": 0}, {"n": "${add}"}, "n < 3", 3, ADDING)],
        {"n": 3}),
    Row("a loop whose limit is caught", [rounds({"n": 0}, {"n": "${add}"}, "n >= 0", 3, ADDING), said("a")],
        "A", edges=[("loop", "error", "a")]),
    Row("a loop with a condition over an output of its own",
        [rounds({"n": 0}, {"n": "${add}", "more": "${add < 4}"}, "more", 10, ADDING)],
        {"n": 4, "more": False}),
    Row("a loop over the store around it",
        [use("items"), rounds({"n": 0}, {"n": "${add}"}, "n < len(items)", 10, ADDING)], {"n": 3}),
    Row("a loop for each item",
        [rounds({"n": "${item}"}, {"n": "${add}"}, "n < 5", 10, ADDING, batch={"over": [1, 9]})],
        [{"n": 5}, {"n": 10}]),
    Row("a loop in a loop",
        [rounds({"n": 0, "sum": 0}, {"n": "${n + 1}", "sum": "${sum + inside.k}"}, "n < 3", 10,
                {"id": "inside", "loop": {"carry": {"k": 0}, "while": "k < 2", "limit": 5},
                 "flow": {"nodes": [use("add", params={"a": "${k}"})], "outputs": {"k": "${add}"}}})],
        {"n": 3, "sum": 6}),
    Row("a loop that fails", [rounds({"n": 0}, {"n": "${fail}"}, "n", 3, use("fail"))], error="no reason"),
    Row("a loop that carries what is not an output",
        [rounds({"n": 0, "k": 7}, {"n": "${add}"}, "n < k", 10, ADDING)], {"n": 7}),
    Row("a loop whose condition has no value",
        [rounds({"n": 0}, {"n": "${add}"}, "nothing > 1", 3, ADDING)],
        error="loop.while: nothing: there is no node, input or key 'nothing'"),
    Row("a loop whose condition is always the same",
        [rounds({"n": 0}, {"n": "${add}"}, "true", 3, ADDING)], error="is the same in every round"),
    Row("what follows a loop reads its values",
        [rounds({"n": 0}, {"n": "${add}"}, "n < 5", 10, ADDING), values("t", m="${loop.n * 2}")], {"m": 10}),
]  # fmt: skip


START = use("same", "start", params={"value": 0})
TWO = [("start", "a"), ("start", "b"), ("a", "end"), ("b", "end")]


def number(id: str, a: Any) -> Document:
    return use("add", id, params={"a": a})


def joined(join: Any, value: Any = "${end.branches}") -> Document:
    return use("same", "end", params={"value": value}, join=join)


BRANCHES = [
    Row(
        "two branches meet",
        [START, number("a", 1), number("b", 2), joined("all")],
        {"value": {"a": 2, "b": 3}},
        edges=TWO,
    ),
    Row(
        "results of branches by their ids",
        [START, number("a", 1), number("b", 2), joined("all", ["${b}", "${a}"])],
        {"value": [3, 2]},
        edges=TWO,
    ),
    Row(
        "a branch of two nodes",
        [START, number("a", 1), number("a2", "${a}"), number("b", 2), joined("all")],
        {"value": {"a": 3, "b": 3}},
        edges=[("start", "a"), ("start", "b"), ("a", "a2"), ("a2", "end"), ("b", "end")],
    ),
    Row(
        "branches in the order of their edges",
        [START, number("a", 1), number("b", 2), joined("all", ["${end.branches}"])],
        {"value": [{"b": 3, "a": 2}]},
        edges=[("start", "b"), ("start", "a"), ("a", "end"), ("b", "end")],
    ),
    Row(
        "a number of branches that is all of them",
        [START, number("a", 1), number("b", 2), joined(2)],
        {"value": {"a": 2, "b": 3}},
        edges=TWO,
    ),
    Row(
        "a branch fails the flow",
        [START, number("a", 1), use("fail", "b", params={"why": "no luck"}), joined("all")],
        error="no luck",
        edges=TWO,
    ),
    Row(
        "a branch that fails is kept",
        [START, number("a", 1), use("fail", "b"), joined({"keep_errors": True})],
        {"value": {"a": 2, "b": None}},
        edges=TWO,
    ),
    Row(
        "the errors of branches",
        [
            START,
            number("a", 1),
            use("fail", "b"),
            joined({"keep_errors": True}, "${end.errors.b.category}"),
        ],
        {"value": "tool"},
        edges=TWO,
    ),
    Row(
        "no branch arrives",
        [START, use("fail", "a"), use("fail", "b"), joined("any")],
        error="waits for 1 of 2 branches, and too few reached it",
        edges=TWO,
    ),
    Row(
        "a number of branches fails with the first failure if it should",
        [
            START,
            use("fail", "a", params={"why": "first"}),
            number("b", 1),
            joined({"wait": 2, "keep_errors": False}),
        ],
        error="first",
        edges=TWO,
    ),
    Row(
        "branches without a join",
        [START, number("a", 1), number("b", 2)],
        {"a": 2, "b": 3},
        edges=[("start", "a"), ("start", "b")],
    ),
    Row(
        "branches on an error",
        [use("fail", "start"), number("a", 1), number("b", 2), joined("all")],
        {"value": {"a": 2, "b": 3}},
        edges=[("start", "error", "a"), ("start", "error", "b"), ("a", "end"), ("b", "end")],
    ),
    Row(
        "a flow inside as a branch",
        [
            START,
            {"id": "a", "flow": {"nodes": [number("inner", 1)], "outputs": {"n": "${inner}"}}},
            number("b", 2),
            joined("all"),
        ],
        {"value": {"a": {"n": 2}, "b": 3}},
        edges=TWO,
    ),
    Row(
        "branches in a flow inside, for each item",
        [
            {
                "id": "each",
                "flow": {
                    "nodes": [START, number("a", "${item}"), number("b", "${a_value ?? 5}"), joined("all")],
                    "edges": [{"from": one, "to": other} for one, other in TWO],
                    "outputs": {"sum": ["${a}", "${b}"]},
                },
                "batch": {"over": [1, 2]},
            }
        ],
        [{"sum": [2, 6]}, {"sum": [3, 6]}],
    ),
    Row(
        "branches that meet without a join",
        [START, number("a", 1), number("b", 2), number("end", 3)],
        error="both lead to 'end', which does not say `join`",
        edges=TWO,
    ),
    Row(
        "a join of nothing",
        [START, use("same", "end", params={"value": 1}, join="all")],
        error="says `join`, but no branches meet there",
    ),
    Row(
        "a join that waits for too many",
        [START, number("a", 1), number("b", 2), joined(3)],
        error="waits for 3 branches, but only 2",
        edges=TWO,
    ),
]

ROWS = [
    *TEMPLATES,
    *ARGUMENTS,
    *OUTPUTS,
    *ACTIONS,
    *NESTED,
    *BATCHES,
    *CONDITIONS,
    *VALUES,
    *LOOPS,
    *BRANCHES,
]


def test_the_table_is_large_enough() -> None:
    assert len(ROWS) >= 160
    assert len({row.name for row in ROWS}) == len(ROWS)


def way(text: str = "") -> Document:
    """An action, a condition, or both, as an edge says them."""
    action, when, condition = text.partition("when ")
    if not when:
        action, when, condition = f"{text} ".partition("else ")
    found = {"when": condition or "else"} if when else {}
    return found | ({"action": action.strip()} if action.strip() else {})


def document(row: Row) -> Document:
    ids = [node["id"] for node in row.nodes]
    edges = row.edges if row.edges is not None else list(itertools.pairwise(ids))
    written = [{"from": edge[0], "to": edge[-1], **way(*edge[1:-1])} for edge in edges]
    return {"version": 1, "name": "row", "nodes": row.nodes, "edges": written, **row.more}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
async def test_row(row: Row, opened: OpenFlows) -> None:
    definition = from_document(document(row), NOWHERE, "row.json")
    async with opened() as app:
        if row.error is not None:
            with pytest.raises(SpindleError) as caught:
                await app.run_flow(definition, row.inputs)
            assert row.error in caught.value.message
        else:
            outcome = await app.run_flow(definition, row.inputs)
            assert isinstance(outcome, Finished)
            assert outcome.result.value == row.gives
