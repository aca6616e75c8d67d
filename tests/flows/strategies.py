"""Definitions of flows, at random."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from spindle.flows.definition import (
    Batch,
    CacheRule,
    Edge,
    FlowDefinition,
    FlowLoop,
    FlowOutput,
    Join,
    NodeDefinition,
    Question,
    Retry,
)

TEXTS = st.text(st.characters(codec="utf-8"), max_size=30) | st.sampled_from(
    [
        "yes",
        "null",
        "~",
        "1e5",
        "010",
        "1_000",
        "2020-01-01",
        "12:30:45",
        "0x1f",
        "<<",
        "=",
        "- a",
        "a: b",
        "#x",
        " x",
        "x ",
        "a\nb",
        "a\n\n b\n",
        "\tx",
        "\u2028",
        "\x85",
        "\x00",
        "\ufeff",
        "${a.b ?? 'x'}",
        "|",
        "!!int 5",
        "*a",
        "&a",
        ".",
    ]
)
NAMES = st.from_regex(r"[a-zA-Zé_0-9-]{1,8}", fullmatch=True)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(TEXTS, JSON, max_size=3)
SCHEMAS = st.fixed_dictionaries({}, optional={"type": st.just("string"), "default": JSON, "title": TEXTS})
WAITS = st.sampled_from(["all", "any"]) | st.integers(1, 1000)
SECONDS = st.floats(0.001, 1e6)
RULES = st.builds(CacheRule, ttl=SECONDS, loops=st.booleans())


def nodes(flows: st.SearchStrategy[FlowDefinition] | None = None) -> st.SearchStrategy[NodeDefinition]:
    kinds: list[st.SearchStrategy[dict[str, Any]]] = [
        st.fixed_dictionaries({"tool": NAMES}),
        st.fixed_dictionaries({"ask": st.builds(Question, TEXTS, st.none() | OBJECTS)}),
        st.fixed_dictionaries({"transform": st.dictionaries(NAMES, JSON, min_size=1, max_size=3)}),
    ]
    if flows is not None:
        kinds.append(st.fixed_dictionaries({"flow": flows}))
    rest = st.fixed_dictionaries(
        {},
        optional={
            "description": TEXTS,
            "params": OBJECTS,
            "inputs": st.dictionaries(TEXTS, NAMES, max_size=2),
            "outputs": st.dictionaries(TEXTS, NAMES, max_size=2),
            "retry": st.builds(Retry, st.integers(1, 9), st.floats(0, 9), st.floats(0, 9)),
            "timeout": st.none() | SECONDS,
            "batch": st.builds(Batch, st.lists(JSON) | TEXTS, NAMES, st.integers(1, 99), st.booleans()),
            "loop": st.builds(
                FlowLoop, st.dictionaries(NAMES, JSON, max_size=2), TEXTS.filter(bool), st.integers(1, 99)
            ),
            "cache": st.none() | st.booleans() | RULES,
            "fail_when": TEXTS.filter(bool),
            "fingerprint": TEXTS,
            "join": st.none() | st.builds(Join, WAITS, st.none() | st.booleans()),
            "parse": st.sampled_from(["auto", "json", "text"]),
        },
    )
    return st.builds(_node, NAMES, st.one_of(kinds), rest)


REFUSED = {
    "tool": ("loop",),
    "ask": ("params", "inputs", "retry", "timeout", "cache", "fingerprint", "parse", "loop"),
    "transform": ("params", "inputs", "retry", "timeout", "cache", "fingerprint", "parse", "loop"),
    "flow": ("fingerprint", "parse"),
}
"""By kind of node, the keys that it does not have."""


def _node(name: str, kind: dict[str, Any], more: dict[str, Any]) -> NodeDefinition:
    refused = REFUSED[next(iter(kind))]
    return NodeDefinition(name, **kind, **{key: value for key, value in more.items() if key not in refused})


EDGES = st.builds(Edge, NAMES, NAMES, NAMES | st.just("default"), st.none() | TEXTS.filter(bool))


def flows(inner: st.SearchStrategy[FlowDefinition] | None = None) -> st.SearchStrategy[FlowDefinition]:
    return st.builds(
        FlowDefinition,
        nodes=st.lists(nodes(inner), min_size=1, max_size=4, unique_by=lambda node: node.id).map(tuple),
        edges=st.lists(
            st.builds(Edge, NAMES, NAMES, NAMES | st.just("default"), st.none() | TEXTS.filter(bool)),
            max_size=3,
        ).map(tuple),
        name=TEXTS,
        description=TEXTS,
        inputs=st.dictionaries(NAMES, SCHEMAS, max_size=2),
        params=OBJECTS,
        outputs=st.none() | st.dictionaries(TEXTS, st.builds(FlowOutput, JSON, SCHEMAS), max_size=2),
        start=st.none() | NAMES,
        cache=st.none() | RULES | st.just(CacheRule()),
        on_unknown=st.sampled_from(["error", "end"]),
        max_visits=st.integers(1, 5000),
    )


DEFINITIONS = flows(flows())
