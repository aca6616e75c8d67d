"""Flows in one line."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.tools import find
from spindle.flows.definition import DEFAULT_ACTION, Edge, FlowDefinition, NodeDefinition, Retry
from spindle.flows.problems import BrokenFlowError
from spindle.flows.text.pipe import read_pipe, to_pipe
from spindle.flows.text.pipe_words import MAX_LENGTH, PipeError, quote, split


async def nodes(text: str) -> list[tuple[str, dict[str, Any]]]:
    definition = (await read_pipe(text, find)).definition
    return [(node.id, node.params) for node in definition.nodes]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", [["a"]]),
        ("  a  ", [["a"]]),
        ("a >> b", [["a"], ["b"]]),
        ("a>>b>>c", [["a"], ["b"], ["c"]]),
        ("a\n  >> b\n", [["a"], ["b"]]),
        ("a --x=1 --y 2", [["a", "--x=1", "--y", "2"]]),
        ("a 'b c' d", [["a", "b c", "d"]]),
        ('a "b c"d', [["a", "b cd"]]),
        ("a --x='>>' b", [["a", "--x=>>", "b"]]),
        ('a ">>" b', [["a", ">>", "b"]]),
        (r"a \>\> b", [["a", ">>", "b"]]),
        ("a --x=1>>b", [["a", "--x=1"], ["b"]]),
        ("a > b", [["a", ">", "b"]]),
        ("a --x='it'\\''s'", [["a", "--x=it's"]]),
        (r'a "q\"u\\o\$t\n"', [["a", 'q"u\\o$t\\n']]),
        (r"a b\ c", [["a", "b c"]]),
        ("a ''", [["a", ""]]),
        ("a --x=${k ?? 'en us'} b", [["a", "--x=${k ?? 'en us'}", "b"]]),
        ('a --x="${k ?? "en us"} and" b', [["a", '--x=${k ?? "en us"} and', "b"]]),
        ("a --x=${k ?? ${j ?? 1}}", [["a", "--x=${k ?? ${j ?? 1}}"]]),
        ("a --x=${k['>>']}", [["a", "--x=${k['>>']}"]]),
        ("a '${k'", [["a", "${k"]]),
        ("a $k $ $5", [["a", "$k", "$", "$5"]]),
        ("a $${k}", [["a", "$${k}"]]),
        ("a | b".replace("|", "x|y"), [["a", "x|y", "b"]]),
        ("é.ü --ä=ö", [["é.ü", "--ä=ö"]]),
    ],
)
def test_words_are_split_as_a_shell_splits_them(text: str, expected: list[list[str]]) -> None:
    assert [[word.text for word in node] for node in split(text)] == expected


@given(st.lists(st.text(min_size=1), min_size=1))
def test_a_quoted_word_is_one_word(words: list[str]) -> None:
    joined = " ".join(quote(word) for word in words)
    if any("${" in word for word in words):
        return  # a template has quotes of its own
    assert [word.text for word in split(joined)[0]] == words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", [("now", {})]),
        ("time.now", [("now", {})]),
        ("search_code --query TODO", [("search_code", {"query": "TODO"})]),
        ("search_code --query=5 --limit=5", [("search_code", {"query": "5", "limit": 5})]),
        ("search_code --query=x --exact", [("search_code", {"query": "x", "exact": True})]),
        ("search_code --query=x --no-exact", [("search_code", {"query": "x", "exact": False})]),
        ("search_code --exact --query=x", [("search_code", {"query": "x", "exact": True})]),
        ("search_code --query=x --tags a --tags b", [("search_code", {"query": "x", "tags": ["a", "b"]})]),
        ("search_code --query=x --tags='[\"a\"]'", [("search_code", {"query": "x", "tags": ["a"]})]),
        (
            "search_code --query=x --options='{\"a\": 1}'",
            [("search_code", {"query": "x", "options": {"a": 1}})],
        ),
        (
            'search_code \'{"query": "x", "limit": 1}\' --limit 2',
            [("search_code", {"query": "x", "limit": 2})],
        ),
        # templates are text whatever the type
        (
            "now >> search_code --query=x --limit='${now}'",
            [("now", {}), ("search_code", {"query": "x", "limit": "${now}"})],
        ),
        (
            "now >> search_code --query=x --exact ${now}",
            [("now", {}), ("search_code", {"query": "x", "exact": "${now}"})],
        ),
        (
            "now >> search_code --query=x --tags ${now}",
            [("now", {}), ("search_code", {"query": "x", "tags": "${now}"})],
        ),
        (
            "now >> search_code --query=x --tags ${now} --tags b",
            [("now", {}), ("search_code", {"query": "x", "tags": ["${now}", "b"]})],
        ),
        ("now >> search_code --query='at ${now}'", [("now", {}), ("search_code", {"query": "at ${now}"})]),
        (
            'now >> search_code --query=x --options=\'{"at": "${now}"}\'',
            [("now", {}), ("search_code", {"query": "x", "options": {"at": "${now}"}})],
        ),
        ("search_code --query='$${x}'", [("search_code", {"query": "$${x}"})]),
        # ${prev} is named
        ("now >> upper --text='${prev}'", [("now", {}), ("upper", {"text": "${now}"})]),
        (
            "now >> upper --text='${prev.a[0] ?? ${prev}}'",
            [("now", {}), ("upper", {"text": "${now.a[0] ?? ${now}}"})],
        ),
        ("now >> upper --text='${previous}'", [("now", {}), ("upper", {"text": "${previous}"})]),
        ("now >> upper --text='$${prev} ${ prev }'", [("now", {}), ("upper", {"text": "$${prev} ${ now }"})]),
        (
            "now >> search_code --query=x --any='[\"${prev}\"]'",
            [("now", {}), ("search_code", {"query": "x", "any": ["${now}"]})],
        ),
        # what is not given comes from before
        ("upper", [("upper", {"text": "${stdin}"})]),
        (
            "upper >> upper >> upper",
            [
                ("upper", {"text": "${stdin}"}),
                ("upper_2", {"text": "${upper}"}),
                ("upper_3", {"text": "${upper_2}"}),
            ],
        ),
        ("now >> search_code", [("now", {}), ("search_code", {"query": "${now}"})]),
        (
            "summarize --text=x >> upper",
            [("summarize", {"text": "x"}), ("upper", {"text": "${summarize.summary}"})],
        ),
        (
            "join --left=a >> upper",
            [("join", {"left": "a", "right": "${stdin}"}), ("upper", {"text": "${join}"})],
        ),
        ("count >> half", [("count", {"text": "${stdin}"}), ("half", {"n": "${count.words}"})]),
        # by name, where something before writes it
        ("half --n=8 >> half >> half", [("half", {"n": 8}), ("half_2", {}), ("half_3", {})]),
        (
            "send --text=x --channel=dev >> now >> log.write",
            [("send", {"text": "x", "channel": "dev"}), ("now", {}), ("write", {})],
        ),
        # the whole object where an object is wanted
        (
            "search_code --query=x >> load",
            [("search_code", {"query": "x"}), ("load", {"data": "${search_code}"})],
        ),
        # a tool may be called like what we call ours
        ("odd.stdin >> upper", [("stdin_2", {}), ("upper", {"text": "${stdin_2}"})]),
        ("open.any --free 5 --more=x", [("any", {"free": 5, "more": "x"})]),
    ],
)
async def test_a_line_becomes_a_flow(text: str, expected: list[tuple[str, dict[str, Any]]]) -> None:
    assert await nodes(text) == expected


async def test_nodes_are_joined_in_order_under_their_full_names() -> None:
    loaded = await read_pipe(
        "search_code --query=x>>summarize --text='${prev.items}' >>slack.send --channel dev", find
    )
    definition = loaded.definition
    assert [node.tool for node in definition.nodes] == ["github.search_code", "text.summarize", "slack.send"]
    assert definition.edges == (Edge("search_code", "summarize"), Edge("summarize", "send"))
    assert definition.nodes[2].params == {"channel": "dev", "text": "${summarize.summary}"}
    assert definition.inputs == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("upper", {"type": "string", "description": "what is piped in"}),
        ("load", {"type": "object", "description": "what is piped in"}),
        ("summarize", {"type": ["array", "string"], "description": "what is piped in"}),
        ("now >> upper --text='x ${stdin}'", {"description": "what is piped in"}),
    ],
)
async def test_stdin_is_an_input_of_the_type_that_is_wanted(text: str, expected: dict[str, Any]) -> None:
    assert (await read_pipe(text, find)).definition.inputs == {"stdin": expected}


@pytest.mark.parametrize(
    ("text", "expected", "hint"),
    [
        ("", "p:1:1: there is no tool", None),
        ("   ", "p:1:1: there is no tool", None),
        (">> now", "p:1:1: there is no tool before this `>>`", None),
        ("now >>", "p:1:5: there is no tool after this `>>`", None),
        ("now >> >> now", "p:1:8: there is no tool before this `>>`", None),
        ("now >>> now", "p:1:5: nodes are joined by `>>`, not by `>>>`", None),
        ("now | upper", "p:1:5: nodes are joined by `>>`, not by `|`", None),
        ("now -> upper", "p:1:5: nodes are joined by `>>`, not by `->`", None),
        ("now && upper", "p:1:5: nodes are joined by `>>`, not by `&&`", None),
        ("now |> upper", "p:1:5: nodes are joined by `>>`, not by `|>`", None),
        ("now 'x", "p:1:5: this quote is not closed", None),
        ('now\n "x', "p:2:2: this quote is not closed", None),
        ("now x\\", "p:1:6: there is nothing after this backslash", None),
        ("upper --text=${x", "p:1:14: this template is not closed with a brace", None),
        ("upper --text='${x'", "p:1:7: --text: '${x' is not closed with a brace", None),
        ("upper --text='${}'", "p:1:7: --text: ${}: an expression is missing (at column 1)", None),
        ("nwo >> upper", "p:1:1: there is no tool 'nwo'", "did you mean 'now'?"),
        ("now >>\nuper", "p:2:1: there is no tool 'uper'", "did you mean 'upper'?"),
        (
            "now >> --text=x",
            "p:1:8: there is no tool '--text=x'",
            "after `>>` comes a tool's name, then its flags",
        ),
        ("upper --text=a>>b!", "p:1:17: there is no tool 'b!'", "put `>>` in quotes where it is text"),
        ("upper --txet=x", "p:1:7: text.upper has no parameter --txet", "did you mean --text?"),
        (
            "now --anything",
            "p:1:5: time.now has no parameter --anything",
            "`spindle call time.now --help` shows its parameters",
        ),
        ("now >> upper --text", "p:1:14: --text needs a value", None),
        ("upper --text --x", "p:1:7: --text needs a value", "write --text=--x if that is the value"),
        ("search_code --query=x --limit=many", "p:1:23: --limit must be an integer, not 'many'", None),
        (
            "search_code --query=x --limit='1${prev}'",
            "p:1:23: --limit must be an integer, not '1${prev}'",
            None,
        ),
        ("search_code --query=x --query=y", "p:1:13: --query was given 2 times and takes one value", None),
        ("upper hello", "p:1:7: 'hello' is neither a flag nor a JSON object", "perhaps --text=hello"),
        ("upper 'a b'", "p:1:7: 'a b' is neither a flag nor a JSON object", 'perhaps --text="a b"'),
        ("now x", "p:1:5: 'x' is neither a flag nor a JSON object", "time.now takes no arguments"),
        (
            "upper '{x'",
            "p:1:7: the argument is not valid JSON: Expecting property name enclosed in double quotes: "
            "line 1 column 2 (char 1)",
            """quote it for the shell: '{"name": "value"}'""",
        ),
        (
            "upper --text='${prev}'",
            "p:1:7: ${prev} has no value: this is the first node",
            "${stdin} is what is piped in",
        ),
        (
            "slack.send",
            "p:1:1: slack.send needs `text` and `channel`, and nothing provides them",
            "such as --text='${stdin}' --channel=VALUE",
        ),
        (
            "now >> slack.send",
            "p:1:8: slack.send needs `text` and `channel`, and nothing provides them",
            "such as --text='${prev.key}' --channel=VALUE",
        ),
        (
            "search_code --query=x >> upper",
            "p:1:26: text.upper needs `text`, but github.search_code returns items and total",
            "say which: --text='${prev.items}'",
        ),
        (
            "search_code --query=x >> half",
            "p:1:26: math.half needs `n`, but github.search_code returns items and total",
            "say which: --n='${prev.items}'",
        ),
        ("x" * (MAX_LENGTH + 1), f"p:1:1: longer than {MAX_LENGTH} characters", "write it as a file"),
        ("now>>" * 1000 + "now", "p:1:4999: more than 1000 nodes", "write it as a file"),
        (
            f"search_code --query=x --any={'[' * 900}{']' * 900}",
            "p:1:23: --any: nested more than 150 levels deep",
            None,
        ),
    ],
)
async def test_a_mistake_is_named_with_its_place(text: str, expected: str, hint: str | None) -> None:
    with pytest.raises(BrokenFlowError) as caught:
        await read_pipe(text, find, "p")
    assert (caught.value.message, caught.value.hint) == (expected, hint)


async def test_all_mistakes_are_told_at_once_and_none_that_follows_from_another() -> None:
    with pytest.raises(BrokenFlowError) as caught:
        await read_pipe("nwo >> upper >> slack.send --chanel=x", find)
    assert [str(problem) for problem in caught.value.problems] == [
        "1:1: there is no tool 'nwo'",
        "1:28: slack.send has no parameter --chanel",
    ]


async def test_parts_of_a_line_have_their_place() -> None:
    loaded = await read_pipe("now >>\n upper --text=x", find)
    mark = loaded.positions.at(("nodes", 1, "params", "text"))
    assert mark is not None
    assert (mark.line, mark.column) == (2, 8)
    assert loaded.positions.problem("error", "x", ("nodes", 1), place="p").where == "p:2:2"


# --- back to text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", "time.now"),
        ("now>>search_code --limit 3", 'time.now >> github.search_code --limit=3 --query="${now}"'),
        (
            "search_code --query='a b' --exact --tags a --tags b",
            'github.search_code --query="a b" --exact=true --tags=\'["a", "b"]\'',
        ),
        ("search_code --query='say \"it'\\''s\"'", "github.search_code --query='say \"it'\\''s\"'"),
        ("upper", 'text.upper --text="${stdin}"'),
        ("open.any --n=5 --s='\"5\"' --t=x", "open.any --n=5 --s='\"5\"' --t=x"),
        ("search_code --query='>>'", 'github.search_code --query=">>"'),
    ],
)
async def test_a_flow_is_written_as_a_line(text: str, expected: str) -> None:
    definition = (await read_pipe(text, find)).definition
    assert await to_pipe(definition, find) == expected
    assert (await read_pipe(expected, find)).definition == definition


@pytest.mark.parametrize(
    "change",
    [
        {"edges": ()},
        {"edges": (Edge("upper", "now", "error"),)},
        {"edges": (Edge("now", "upper"),)},
        {"outputs": {}},
        {"params": {"a": 1}},
        {"max_visits": 3},
        {"start": "now"},
        {"inputs": {"x": {}}},
        {
            "nodes": (
                NodeDefinition("a", tool="text.upper", params={"text": "x"}),
                NodeDefinition("now", tool="time.now"),
            )
        },
        {"nodes": (NodeDefinition("upper", tool="gone.tool"), NodeDefinition("now", tool="time.now"))},
        {
            "nodes": (
                NodeDefinition("upper", tool="text.upper", params={"text": 5}),
                NodeDefinition("now", tool="time.now"),
            )
        },
        {"nodes": (NodeDefinition("upper", flow=FlowDefinition(())), NodeDefinition("now", tool="time.now"))},
        {
            "nodes": (
                NodeDefinition("upper", tool="text.upper", params={"text": "x"}, retry=Retry(2)),
                NodeDefinition("now", tool="time.now"),
            )
        },
    ],
)
async def test_what_a_line_cannot_say_is_not_written_as_one(change: dict[str, Any]) -> None:
    definition = (await read_pipe("upper --text=x >> now", find)).definition
    named = replace(definition, name="n", description="d", start="upper")
    saved = replace(named, nodes=tuple(replace(node, fingerprint="f") for node in named.nodes))
    assert await to_pipe(saved, find) == "text.upper --text=x >> time.now"
    assert await to_pipe(replace(definition, **change), find) is None


_PARAMS = st.fixed_dictionaries(
    {"query": st.text(st.characters(codec="utf-8"))},
    optional={
        "limit": st.integers(),
        "tags": st.lists(st.text(st.characters(codec="utf-8"))),
        "exact": st.booleans(),
        "options": st.dictionaries(st.text(), st.integers() | st.text()),
        "any": st.none() | st.integers() | st.text() | st.lists(st.integers()),
    },
)


@given(st.lists(_PARAMS, min_size=1, max_size=3))
async def test_any_arguments_survive_the_way_through_a_line(params: list[dict[str, Any]]) -> None:
    ids = ["search_code", "search_code_2", "search_code_3"][: len(params)]
    definition = FlowDefinition(
        tuple(
            NodeDefinition(id, tool="github.search_code", params=given)
            for id, given in zip(ids, params, strict=True)
        ),
        tuple(Edge(one, other, DEFAULT_ACTION) for one, other in itertools.pairwise(ids)),
    )
    text = await to_pipe(definition, find)
    if "${" in str(params):
        return  # taken for a template, which may not be one
    assert text is not None
    assert (await read_pipe(text, find)).definition == definition


_PIECES = st.sampled_from(
    [
        "now",
        "upper",
        "search_code",
        ">>",
        " ",
        "'",
        '"',
        "\\",
        "--",
        "--text",
        "=",
        "${",
        "}",
        "prev",
        "stdin",
        "x",
        "{",
        "\n",
        "|",
        "$",
        "--no-exact",
        "??",
        "[0]",
        ".",
    ]
)


@given(st.one_of(st.text(), st.lists(_PIECES, max_size=25).map("".join)))
async def test_any_text_is_a_flow_or_refused(text: str) -> None:
    try:
        split(text)
    except PipeError as error:
        offset = error.offset
        assert 0 <= offset <= len(text)
    try:
        definition = (await read_pipe(text, find)).definition
    except BrokenFlowError:
        return
    written = await to_pipe(definition, find)
    if written is not None:
        assert (await read_pipe(written, find)).definition == definition
