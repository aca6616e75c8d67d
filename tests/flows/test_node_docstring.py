"""Interfaces in docstrings: as sections, and as the list that pflow's nodes have."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from spindle.flows.interface import Interface, Key
from spindle.flows.node_docstring import of_docstring

SPECIFIED = """Search code in GitHub repositories via MCP.

    Interface:
    - Reads: shared["query"] - search query string
    - Reads: shared["language"] - programming language filter (optional)
    - Writes: shared["search_results"] - array of code search results
    - Params: max_results (default 10) - maximum results to return
    - Actions: "default", "rate_limited", "auth_failed"
    """


def told(keys: tuple[Key, ...]) -> list[tuple[Any, ...]]:
    return [(key.name, key.schema.get("type"), key.required, key.schema.get("default")) for key in keys]


def test_the_list_of_the_specification_is_read() -> None:
    found = of_docstring("search", SPECIFIED)
    assert found.description == "Search code in GitHub repositories via MCP."
    assert told(found.reads) == [("query", None, True, None), ("language", None, False, None)]
    assert [key.description for key in found.reads] == ["search query string", "programming language filter"]
    assert told(found.writes) == [("search_results", None, True, None)]
    assert told(found.params) == [("max_results", None, False, 10)]
    assert found.params[0].description == "maximum results to return"
    assert list(found.actions) == ["default", "rate_limited", "auth_failed"]


def test_types_comments_several_keys_and_lines_that_go_on_are_read() -> None:
    unread: list[str] = []
    found = of_docstring(
        "n",
        """Do it.

        Interface:
        - Reads: shared["path"]: str  # where it is
        - Reads: shared["a"], shared['b c']: list[str] | None (optional)
        - Writes: shared["content"]: dict[str, int]  # the lines,
            with their numbers
        - Writes: shared["total"] (int): how many, in all
        - Params: encoding: str  # of the file (optional, default: utf-8)
        - Params: name: str (required), sep: str - between (default: "a)") the parts
        - Actions: default (success), error (failure)
        - Whatever: this is

        It goes on here.
        """,
        unread=unread.append,
    )
    assert found.description == "Do it.\n\nIt goes on here."
    assert told(found.reads) == [
        ("path", "string", True, None), ("a", None, True, None), ("b c", ["array", "null"], False, None),
    ]  # fmt: skip
    assert [(key.name, key.schema["type"], key.description) for key in found.writes] == [
        ("content", "object", "the lines, with their numbers"),
        ("total", "integer", "how many, in all"),
    ]
    assert told(found.params) == [
        ("encoding", "string", False, "utf-8"), ("name", "string", True, None),
        ("sep", "string", False, "a)"),
    ]  # fmt: skip
    assert found.actions == {"default": "success", "error": "failure"}
    assert unread == ["- Whatever: this is"]


def test_lines_of_sections_that_say_no_key_are_told() -> None:
    unread: list[str] = []
    found = of_docstring("n", "Do it.\n\nReads:\n    two words: x\n    text (str): y\n", unread=unread.append)
    assert ([key.name for key in found.reads], unread) == (["text"], ["two words: x"])


TEXTS = (
    st.text("abc de-,.'", max_size=20)
    .map(lambda text: " ".join(text.split()))
    .filter(lambda text: "- " not in f"{text} ")
)
KINDS = st.sampled_from(["string", "integer", "number", "boolean", "array", "object"])


@st.composite
def keys(draw: Any, *, are_params: bool = False) -> tuple[Key, ...]:
    names = draw(st.lists(st.from_regex(r"[a-z][a-z0-9_]{0,5}", fullmatch=True), max_size=3, unique=True))
    made: list[Key] = []
    for name in names:
        schema: dict[str, Any] = {"type": draw(KINDS)}
        default = draw(
            st.none()
            | st.integers()
            | st.booleans()
            | st.text('ab()"\\ ,', min_size=1)
            | st.lists(st.integers())
        )
        if default is not None:
            schema["default"] = default
        text = draw(TEXTS)
        made.append(Key(name, schema, text, default is None and not are_params and draw(st.booleans())))
    return tuple(made)


@given(keys(), keys(), keys(are_params=True), TEXTS)
def test_a_list_that_was_written_is_read_back(
    reads: tuple[Key, ...], writes: tuple[Key, ...], params: tuple[Key, ...], text: str
) -> None:
    own = {key.name for key in params}
    reads = tuple(key for key in reads if key.name not in own)
    made = Interface("n", text, reads, writes, params, {"default": "", "rate_limited": ""})
    unread: list[str] = []
    again = of_docstring("n", made.to_docstring(), unread=unread.append)
    assert unread == []
    for was, now in ((reads, again.reads), (writes, again.writes), (params, again.params)):
        assert told(now) == told(was)
        assert [key.description for key in now] == [key.description for key in was]
    assert (again.description, list(again.actions)) == (made.description, list(made.actions))
