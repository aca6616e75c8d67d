"""Flows read from JSON and YAML, and written again."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.strategies import DEFINITIONS, JSON
from spindle.documents.text import read as read_text
from spindle.errors import FlowError
from spindle.flows.definition import (
    SAID,
    Batch,
    CacheRule,
    Edge,
    FlowDefinition,
    FlowOutput,
    NodeDefinition,
    Question,
    Retry,
)
from spindle.flows.problems import BrokenFlowError, Positions
from spindle.flows.text.document import schema
from spindle.flows.text.files import MAX_SIZE, Format, read, read_file, write
from spindle.flows.text.writing import to_document

WHOLE = FlowDefinition(
    name="triage",
    description="Find what is left to do, and say so.\nDaily.",
    inputs={"query": {"type": "string", "default": "TODO"}},
    params={"repo": "x"},
    nodes=(
        NodeDefinition(
            "search",
            tool="github.search_code",
            params={"q": "${query}", "page": 1},
            retry=Retry(3, 1, 2),
            timeout=10,
            fail_when="ok == false",
            fingerprint="abc",
        ),
        NodeDefinition(
            "each", tool="summarize", batch=Batch("${items}", concurrency=20, keep_errors=True), cache=True
        ),
        NodeDefinition("where", ask=Question("Which channel?", {"type": "string"})),
        NodeDefinition("sure", ask=Question("Sure?")),
        NodeDefinition(
            "send",
            tool="slack.send",
            inputs={"text": "each[0].summary"},
            outputs={"ts": "sent_at"},
            cache=CacheRule(60, loops=True),
        ),
        NodeDefinition(
            "sub", flow=FlowDefinition(nodes=(NodeDefinition("inner", tool="log"),), on_unknown="end")
        ),
    ),
    edges=(Edge("search", "each"), Edge("send", "search", "rate_limited")),
    outputs={
        "sent": FlowOutput("${sent_at}"),
        "n": FlowOutput("${n}", {"type": "integer"}),
        "o": FlowOutput({"a": 1}),
    },
    start="search",
    cache=CacheRule(),
    max_visits=7,
)

YAML = """\
version: 1
name: triage
description: |-
  Find what is left to do, and say so.
  Daily.
inputs:
  query:
    type: string
    default: TODO
params:
  repo: x
start: search
nodes:
- id: search
  tool: github.search_code
  params:
    q: ${query}
    page: 1
  retry:
    attempts: 3
    wait: 1
    backoff: 2
  timeout: 10
  fail_when: ok == false
  fingerprint: abc
- id: each
  tool: summarize
  batch:
    over: ${items}
    concurrency: 20
    keep_errors: true
  cache: true
- id: where
  ask:
    message: Which channel?
    schema:
      type: string
- id: sure
  ask: Sure?
- id: send
  tool: slack.send
  cache:
    ttl: 60
    loops: true
- id: sub
  flow:
    nodes:
    - id: inner
      tool: log
    on_unknown: end
edges:
- from: search
  to: each
- from: send
  action: rate_limited
  to: search
mappings:
  send:
    inputs:
      text: each[0].summary
    outputs:
      ts: sent_at
outputs:
  sent: ${sent_at}
  n:
    value: ${n}
    type: integer
  o:
    value:
      a: 1
cache: true
max_visits: 7
"""


def test_a_definition_is_written_without_what_is_as_by_default() -> None:
    assert write(WHOLE, "yaml") == YAML
    assert read(YAML, "yaml").definition == WHOLE


def test_json_and_yaml_have_one_shape() -> None:
    assert json.loads(write(WHOLE)) == to_document(WHOLE)
    assert read(write(WHOLE), "json").definition == WHOLE
    assert read(write(WHOLE), "yaml").definition == WHOLE  # JSON is YAML


@given(DEFINITIONS, st.sampled_from(["json", "yaml"]))
def test_nothing_is_lost_on_the_way_to_a_file_and_back(definition: FlowDefinition, format: Format) -> None:
    text = write(definition, format)
    assert read(text, format).definition == definition
    assert write(read(text, format).definition, format) == text


@given(DEFINITIONS)
def test_what_is_written_fits_the_published_schema(definition: FlowDefinition) -> None:
    assert jsonschema_rs.validator_for(schema()).is_valid(json.loads(write(definition)))


def test_the_published_schema_is_a_schema_and_is_what_documents_are_checked_with() -> None:
    assert jsonschema_rs.meta.is_valid(schema())
    validator = jsonschema_rs.validator_for(schema())
    for document in DOCUMENTS:
        assert validator.is_valid(document) == can_be_read(document), document


def can_be_read(document: Any) -> bool:
    try:
        read(json.dumps(document), "json")
    except BrokenFlowError:
        return False
    return True


NODE: dict[str, Any] = {"id": "a", "tool": "t"}
DOCUMENTS: list[Any] = [
    {},
    [],
    None,
    {"nodes": []},
    {"nodes": [NODE]},
    {"nodes": [NODE], "version": 1},
    {"nodes": [NODE], "version": 2},
    {"nodes": [NODE], "$schema": "flow.schema.json"},
    {"nodes": [NODE], "more": 1},
    *(
        {"nodes": [{**NODE, key: value}]}
        for key, value in [
            ("cache", {}),
            ("cache", None),
            ("cache", {"ttl": 0}),
            ("retry", {}),
            ("retry", {"attempts": 1.5}),
            ("retry", {"attempts": 2.0}),
            ("batch", {"over": "${x}"}),
            ("batch", {"over": {}}),
            ("ask", "?"),
            ("timeout", -1),
            ("timeout", 0.5),
            ("id", "a.b"),
            ("id", ""),
            ("tool", ""),
            ("fail_when", ""),
            ("params", []),
        ]
    ),
    {"nodes": [{"id": "a", "ask": {"message": "?"}}]},
    {"nodes": [{"id": "a", "ask": {}}]},
    {"nodes": [{"id": "a", "flow": {"nodes": [NODE]}}]},
    {"nodes": [{"id": "a", "flow": {"nodes": []}}]},
    {"nodes": [NODE], "edges": [{"from": "a", "to": "b", "action": "x"}]},
    {"nodes": [NODE], "edges": [{"from": "a", "to": "b", "action": ""}]},
    {"nodes": [NODE], "outputs": {"x": {"a": 1}}},
    {"nodes": [NODE], "outputs": {"x": {"value": {"a": 1}, "type": "object"}}},
    {"nodes": [NODE], "mappings": {"a": {"inputs": {"x": "b.c"}, "outputs": {"y": "z"}}}},
    {"nodes": [NODE], "mappings": {"a": {"outputs": {"y": "z w"}}}},
    {"nodes": [NODE], "inputs": {"x": {"type": "string", "required": False}}},
    {"nodes": [NODE], "inputs": {"x": "string"}},
]


def test_whole_numbers_may_be_written_with_a_point() -> None:
    text = '{"nodes": [{"id": "a", "tool": "t", "retry": {"attempts": 2.0}}], "max_visits": 5.0}'
    definition = read(text, "json").definition
    assert isinstance(definition.nodes[0].retry.attempts, int)
    assert isinstance(definition.max_visits, int)


# --- what is wrong, with its line


def problems(text: str, format: Format, name: str = "flows/f") -> list[str]:
    with pytest.raises(BrokenFlowError) as caught:
        read(textwrap.dedent(text).lstrip("\n"), format, f"{name}.{format}")
    assert isinstance(caught.value, FlowError)
    return [f"{found} [{found.hint}]" if found.hint else str(found) for found in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "flows/f.json:1: this is not JSON: Expecting value"),
        ("{", "flows/f.json:1: this is not JSON: Expecting property name enclosed in double quotes"),
        (
            '{\n"nodes": [1,\n\n]}',
            "flows/f.json:4: this is not JSON: Expecting value [take away the comma before it]",
        ),
        (
            "{\n// nodes\n}",
            "flows/f.json:2: this is not JSON: Expecting property name enclosed in double quotes "
            "[JSON has no comments; YAML has]",
        ),
        (
            "{'nodes': []}",
            "flows/f.json:1: this is not JSON: Expecting property name enclosed in double quotes "
            "[JSON needs double quotes]",
        ),
        ('{"a": "x\ny"}', "flows/f.json:1: this is not JSON: Invalid control character at"),
        ('{\n"a": NaN}', "flows/f.json:2: this is not JSON: NaN is not a number that JSON knows"),
        (
            '{"a": "NaN",\n"b": [1, -Infinity]}',
            "flows/f.json:2: this is not JSON: -Infinity is not a number that JSON knows",
        ),
        ('{"a":\n1e999}', "flows/f.json:2: this is not JSON: the number 1e999 is too large"),
        ("[" * 100_000, "flows/f.json:1: nested more than 150 levels deep"),
        ('{"nodes": ' + "[" * 160 + "]" * 160 + "}", "flows/f.json:1: nested more than 150 levels deep"),
        (
            '{"a": 1,\n"b": {"a": 2},\n"a": 3}',
            "flows/f.json:3: 'a' appears a second time; the first is in line 1",
        ),
        (
            '{"b": [{"a": 1},\n{"a": 2,\n"\\u0061": 3}]}',
            "flows/f.json:3: 'a' appears a second time; the first is in line 2",
        ),
        (
            "[]",
            "flows/f.json:1: a flow is an object with `nodes`, not a list "
            "[such as `nodes: [{id: a, tool: NAME}]`]",
        ),
        (
            "5",
            "flows/f.json:1: a flow is an object with `nodes`, not an integer "
            "[such as `nodes: [{id: a, tool: NAME}]`]",
        ),
        ("{}", "flows/f.json:1: the flow needs 'nodes'"),
        ('{"nodes":\n[]}', "flows/f.json:1: `nodes` must not be empty"),
        ('{"nodes": [\n{"tool": "x"}]}', "flows/f.json:2: `nodes[0]` needs 'id'"),
        (
            '{"nodes": [\n{"id": "x"}]}',
            f"flows/f.json:2: `nodes[0]` needs one of {', '.join(map(repr, SAID))} "
            "[a node is exactly one of them]",
        ),
        (
            '{"nodes": [\n{"id": "x", "tool": "t", "ask": "?"}]}',
            "flows/f.json:2: `nodes[0]` has both 'tool' and 'ask' [a node is exactly one of them]",
        ),
        (
            '{"nodes": [{"id": "x",\n\n"tol": "t"}]}',
            "flows/f.json:3: `nodes[0]` has no key 'tol' [did you mean 'tool'?]",
        ),
        (
            '{"nodes": [{"id": "x",\n"tool": 5}]}',
            "flows/f.json:2: `nodes[0].tool` must be a string, not an integer",
        ),
        (
            '{"nodes": [{\n"id": "a.b", "tool": "t"}]}',
            'flows/f.json:2: "a.b" cannot be a name: no spaces, dots, brackets, braces or quotes',
        ),
        (
            '{"nodes": [{"id": "x", "tool": "t",\n"retry": {\n"attempts": 0}}]}',
            "flows/f.json:3: `nodes[0].retry.attempts` must be at least 1, not 0",
        ),
        (
            '{"nodes": [{"id": "x", "tool": "t",\n"retry": {\n"attemps": 3}}]}',
            "flows/f.json:3: `nodes[0].retry` has no key 'attemps' [did you mean 'attempts'?]",
        ),
        (
            '{"nodes": [{"id": "x", "tool": "t",\n"timeout": 0}]}',
            "flows/f.json:2: `nodes[0].timeout` must be more than 0, not 0",
        ),
        (
            '{"nodes": [{"id": "x", "tool": "t",\n"batch": {}}]}',
            'flows/f.json:2: `nodes[0].batch` needs \'over\' [such as "over": "${items}"]',
        ),
        (
            '{"nodes": [{"id": "x", "tool": "t",\n"cache": "yes"}]}',
            "flows/f.json:2: `nodes[0].cache` must be a boolean or an object, not a string "
            "[true, or such as `{ttl: 60}`]",
        ),
        (
            '{"nodes": [{"id": "x", "ask": \n{"mesage": "?"}}]}',
            "flows/f.json:1: `nodes[0].ask` needs 'message'",
        ),
        (
            '{"nodes": [{"id": "x", "tool": "t"}],\n"edges": [{"from": "x"}]}',
            "flows/f.json:2: `edges[0]` needs 'to'",
        ),
        (
            '{"nodes": [{"id": "x", "tool": "t"}],\n"edges": [\n{"from": "x", "to": "x", "actoin": "y"}]}',
            "flows/f.json:3: `edges[0]` has no key 'actoin' [did you mean 'action'?]",
        ),
        (
            '{"nodes": [{"id": "x", "tool": "t"}],\n"outputs": {"a":\n1, "b": {"c": 2}}}',
            "flows/f.json:3: `outputs.b` needs 'value' "
            '[an output that is an object is written {"value": {…}}]',
        ),
        (
            '{"nodes": [{"id": "x", "tool": "t"}],\n"on_unknown": "stop"}',
            'flows/f.json:2: `on_unknown` must be "error" or "end", not "stop"',
        ),
        (
            '{"version": 2, "nodes": [{"id": "x", "tool": "t"}]}',
            "flows/f.json:1: `version` must be 1, not 2 [a newer Spindle may read it]",
        ),
        (
            '{"nodes": [{"id": "x", "tool": "t"}],\n"inputs": {\n"a b": {}}}',
            'flows/f.json:2: `inputs`: "a b" cannot be a name: no spaces, dots, brackets, braces or quotes',
        ),
        (
            '{"nodes": [{"id": "x", "tool": "t"}],\n"mappings": {\n"y": {}}}',
            "flows/f.json:3: `mappings` names 'y', but there is no such node [there are x]",
        ),
        (
            '{"nodes": [{"id": "send", "tool": "t"}],\n"mappings": {\n"sned": {}}}',
            "flows/f.json:3: `mappings` names 'sned', but there is no such node [did you mean 'send'?]",
        ),
        (
            '{"nodes": [{"id": "x", "flow": {"nodes": [{"id": "y", "tool": "t"}],\n"mappings": {"z": {}}}}]}',
            "flows/f.json:2: `mappings` names 'z', but there is no such node [there are y]",
        ),
        (
            '{"nodes": [{"id": "x", "tool": "t", "params": {\n"a": "\\ud800"}}]}',
            "flows/f.json:2: `nodes[0].params.a` holds half a character, which is not Unicode text",
        ),
        (
            '{"nodes": [{"id": "x", "flow": {"nodes": [\n{"id": "y", "tool": "t",\n"tmeout": 5}]}}]}',
            "flows/f.json:3: `nodes[0].flow.nodes[0]` has no key 'tmeout' [did you mean 'timeout'?]",
        ),
    ],
)
def test_a_mistake_in_json_is_named_with_its_line(text: str, expected: str) -> None:
    assert expected in problems(text, "json")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "",
            "flows/f.yaml: a flow is an object with `nodes`, not null "
            "[such as `nodes: [{id: a, tool: NAME}]`]",
        ),
        ("nodes: [", "flows/f.yaml:1: this is not YAML: did not find expected node content"),
        (
            "nodes:\n\t- a",
            "flows/f.yaml:2: this is not YAML: found character that cannot start any token "
            "[YAML needs spaces for indentation, not tabs]",
        ),
        (
            "name: a: b",
            "flows/f.yaml:1: this is not YAML: mapping values are not allowed in this context "
            "[put the text in quotes if it holds a colon]",
        ),
        (
            "a: 1\n---\nb: 2",
            "flows/f.yaml:2: this is not YAML: a second document begins here "
            "[leave out `---` and what follows it]",
        ),
        ("a: 1\nb: 2\na: 3", "flows/f.yaml:3: 'a' appears a second time; the first is in line 1"),
        ("nodes:\n- &a [*a]", "flows/f.yaml:2: a YAML alias refers to a value that contains it"),
        ("nodes:\n  ? [a]\n  : b", "flows/f.yaml:2: a name must be text"),
        (
            "nodes: []\nname: !!python/object:os.system x",
            "flows/f.yaml:2: the tag !!python/object:os.system is not understood [write plain YAML]",
        ),
        ("nodes: []\nname: !own x", "flows/f.yaml:2: the tag !own is not understood [write plain YAML]"),
        (
            "nodes: []\nname: !!binary aGk=",
            "flows/f.yaml:2: the tag !!binary is not understood [write plain YAML]",
        ),
        ("nodes: []\nname: !!set {a}", "flows/f.yaml:2: the tag !!set is not understood [write plain YAML]"),
        ("nodes: []\nname: !!int x", "flows/f.yaml:2: the tag !!int is not understood [write plain YAML]"),
        ("nodes: []\nmax_visits: 1e999", "flows/f.yaml:2: the number 1e999 is too large"),
        ("nodes: []\n<<: 5", "flows/f.yaml:2: `<<` takes an object, or a list of them"),
        ("a: \x00", "flows/f.yaml:1: this is not YAML: control characters are not allowed"),
        ("nodes: *x", "flows/f.yaml:1: this is not YAML: found undefined alias"),
        ("nodes:\n- id: x\n  tol: t", "flows/f.yaml:3: `nodes[0]` has no key 'tol' [did you mean 'tool'?]"),
        ("nodes:\n- id: x\n  tool: 5", "flows/f.yaml:3: `nodes[0].tool` must be a string, not an integer"),
        (
            "nodes:\n- id: x\n  tool: t\n  timeout:",
            "flows/f.yaml:4: `nodes[0].timeout` must be a number, not null [seconds, as a number: 5]",
        ),
        (
            "nodes:\n- id: x\n  tool: t\nedges:\n- from: x\n  to: y\n  actoin: z",
            "flows/f.yaml:7: `edges[0]` has no key 'actoin' [did you mean 'action'?]",
        ),
    ],
)
def test_a_mistake_in_yaml_is_named_with_its_line(text: str, expected: str) -> None:
    assert expected in problems(text, "yaml")


def test_all_mistakes_are_told_at_once_in_the_order_of_their_lines() -> None:
    text = """
    {"nodes": [{"id": "x", "tool": "t", "timeout": -1}],
     "edges": [{"from": "x"}],
     "nmae": "y"}
    """
    assert problems(text, "json") == [
        "flows/f.json:1: `nodes[0].timeout` must be more than 0, not -1",
        "flows/f.json:2: `edges[0]` needs 'to'",
        "flows/f.json:3: the flow has no key 'nmae' [did you mean 'name'?]",
    ]
    with pytest.raises(BrokenFlowError, match=r"f:1: `nodes\[0\].timeout` must be .* \(and 2 more\)$"):
        read(textwrap.dedent(text).lstrip(), "json", "f")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("on", "on"),
        ("yes", "yes"),
        ("2020-01-01", "2020-01-01"),
        ("12:30:45", "12:30:45"),
        ("010", "010"),
        ("0x1f", "0x1f"),
        ("1_000", "1_000"),
        ("1.2.3", "1.2.3"),
        (".inf", ".inf"),
        ("true", True),
        ("null", None),
        ("~", None),
        ("12", 12),
        ("-1.5e3", -1500.0),
        ("1e3", 1000.0),
        ("'12'", "12"),
        ("{200: x}", {"200": "x"}),
        ("{on: x}", {"on": "x"}),
    ],
)
def test_yaml_says_what_json_can_say(text: str, expected: Any) -> None:
    loaded = read(f"nodes: [{{id: a, tool: t, params: {{x: {text}}}}}]", "yaml")
    found = loaded.definition.nodes[0].params["x"]
    assert (found, type(found)) == (expected, type(expected))


def test_anchors_and_merges_work() -> None:
    text = """
    nodes:
    - {id: a, tool: t, retry: &patient {attempts: 3, wait: 1}}
    - {id: b, tool: t, retry: *patient}
    - {id: c, tool: t, retry: {<<: *patient, wait: 5}}
    - {id: d, tool: t, retry: {<<: [*patient, {backoff: 2}]}}
    """
    nodes = read(textwrap.dedent(text), "yaml").definition.nodes
    assert [node.retry for node in nodes] == [Retry(3, 1), Retry(3, 1), Retry(3, 5), Retry(3, 1, 2)]


def test_aliases_that_unfold_without_measure_are_stopped() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert problems("\n".join(lines), "yaml") == [
        "flows/f.yaml:5: its YAML aliases unfold to more than 100000 parts"
    ]


def test_positions_are_those_of_keys_and_items() -> None:
    text = '{"nodes": [\n  {"id": "a",\n   "params": {"q":\n [1,\n  2]}},\n  {"id": "b"}\n]}'
    for format in ("json", "yaml"):
        positions = Positions(read_text(text, format).find_marks)
        lines = {
            path: mark.line
            for path in [
                (),
                ("nodes",),
                ("nodes", 0),
                ("nodes", 0, "params"),
                ("nodes", 0, "params", "q"),
                ("nodes", 0, "params", "q", 1),
                ("nodes", 1),
                ("nodes", 1, "nothing"),
                ("else",),
            ]
            if (mark := positions.at(path)) is not None
        }
        assert list(lines.values()) == [1, 1, 2, 3, 3, 5, 6, 6, 1]


# --- files


def test_a_file_is_read_by_its_ending(tmp_path: Path) -> None:
    for name in ("a.json", "a.yaml", "a.YML"):
        path = tmp_path / name
        path.write_text(write(WHOLE, "json" if name.endswith("json") else "yaml"), "utf-8-sig")
        assert read_file(path).definition == WHOLE


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("a.toml", b"", "a.toml: a flow's file ends in .json, .yaml, .yml"),
        ("a.json", None, "a.json: cannot be read: No such file or directory"),
        ("a.json", b"\n\xff", "a.json:2: this is not UTF-8 text"),
        ("a.json", b" " * (MAX_SIZE + 1), f"a.json: larger than {MAX_SIZE} bytes, the limit for a flow"),
    ],
)
def test_a_file_that_cannot_be_read_is_told(
    tmp_path: Path, name: str, data: bytes | None, expected: str
) -> None:
    if data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(BrokenFlowError) as caught:
        read_file(tmp_path / name, name)
    assert caught.value.message == expected


def test_a_folder_is_no_flow(tmp_path: Path) -> None:
    (tmp_path / "a.json").mkdir()
    with pytest.raises(BrokenFlowError, match="cannot be read: Is a directory"):
        read_file(tmp_path / "a.json")


# --- whatever comes


def attempt(text: str, format: Format) -> None:
    try:
        loaded = read(text, format, "f")
    except BrokenFlowError as error:
        lines = text.count("\n") + 1
        for problem in error.problems:
            assert problem.line is None or 1 <= problem.line <= lines + 1
    else:
        assert read(write(loaded.definition, format), format).definition == loaded.definition


@given(st.text(), st.sampled_from(["json", "yaml"]))
def test_any_text_is_read_or_refused(text: str, format: Format) -> None:
    attempt(text, format)


_KEYS = st.sampled_from(
    [
        "nodes",
        "edges",
        "id",
        "tool",
        "ask",
        "flow",
        "params",
        "retry",
        "from",
        "to",
        "cache",
        "batch",
        "over",
        "outputs",
        "value",
        "mappings",
        "inputs",
        "version",
        "x",
    ]
)
_DOCUMENTS = st.recursive(
    JSON, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4), max_leaves=12
)


@given(_DOCUMENTS, st.sampled_from(["json", "yaml"]))
def test_any_document_is_read_or_refused(document: Any, format: Format) -> None:
    attempt(json.dumps(document), format)


@given(
    st.sampled_from(["json", "yaml"]),
    st.lists(
        st.tuples(st.integers(0, 2000), st.integers(0, 20), st.text(max_size=5)), min_size=1, max_size=4
    ),
)
def test_a_damaged_file_is_read_or_refused(format: Format, damage: list[tuple[int, int, str]]) -> None:
    text = write(WHOLE, format)
    for at, length, instead in damage:
        at %= len(text) + 1
        text = text[:at] + instead + text[at + length :]
    attempt(text, format)
