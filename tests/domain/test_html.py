"""The views of results and tools in a notebook: escaped, and bounded whatever they hold."""

from __future__ import annotations

import base64
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.domain import html
from spindle.domain.call import Block, Result, ToolFailure
from spindle.domain.tool import Tool, ToolList, ToolSpec, ToolSummary

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"


class Page(HTMLParser):
    """The elements and the text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag != "img":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.texts).split())

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.tags)


def structured(value: Any) -> Result:
    return Result((Block("text", text="as text"),), structured=value, has_structured=True)


def shown(value: Any) -> Page:
    page = Page(value._repr_html_())
    assert page.open == []
    return page


def test_rows_are_a_table() -> None:
    page = shown(structured([{"name": "a", "n": 1}, {"name": "b", "more": {"x": [1]}}]))
    assert (page.count("table"), page.count("th"), page.count("tr"), page.count("td")) == (1, 3, 3, 6)
    assert page.text == 'namenmorea1b{"x": [1]}'
    assert "as text" not in page.text


def test_the_fields_of_an_object_are_a_table_and_other_data_is_json() -> None:
    assert shown(structured({"a": 1, "b": None})).count("td") == 4
    page = shown(structured({"a": [1, 2]}))
    assert page.count("table") == 0
    assert page.text == '{ "a": [ 1, 2 ] }'
    assert shown(structured(None)).text == "null"
    assert shown(structured([])).text == "[]"


def test_text_and_pictures_come_in_order() -> None:
    data = base64.b64encode(PIXEL).decode()
    page = shown(Result((Block("text", text="one"), Block("image", data=data, mime_type="image/png"))))
    assert page.text == "one"
    [(_, attributes)] = [tag for tag in page.tags if tag[0] == "img"]
    assert attributes["src"] == f"data:image/png;base64,{data}"


def test_a_picture_in_a_file_is_read_as_long_as_there_is_room(tmp_path: Path) -> None:
    small, large = tmp_path / "small.png", tmp_path / "large.png"
    small.write_bytes(PIXEL)
    large.write_bytes(b"x" * (html.MAX_INLINE + 1))
    blocks = [
        Block("image", path=str(path), mime_type="image/png", size=path.stat().st_size)
        for path in (small, large)
    ]
    page = shown(Result((*blocks, Block("image", path=str(tmp_path / "gone.png"), mime_type="image/png"))))
    assert page.count("img") == 1
    assert f"image, image/png, {html.MAX_INLINE + 1:,} bytes, {large}" in page.text
    assert "gone.png" in page.text


def test_pictures_share_one_bound() -> None:
    data = base64.b64encode(b"x" * (html.MAX_INLINE // 2)).decode()
    blocks = tuple(Block("image", data=data, mime_type="image/png") for _ in range(4))
    assert shown(Result(blocks)).count("img") == 2
    assert len(Result(blocks)._repr_html_()) < 2 * html.MAX_INLINE


@pytest.mark.parametrize("mime_type", ["image/svg+xml", "text/html", 'image/png" onerror="x', None])
def test_only_known_media_are_shown(mime_type: str | None) -> None:
    page = shown(Result((Block("image", data=base64.b64encode(PIXEL).decode(), mime_type=mime_type),)))
    assert page.count("img") == 0


def test_data_that_is_not_base64_is_only_described() -> None:
    page = shown(Result((Block("image", data='x" onload="y', mime_type="image/png"),)))
    assert page.count("img") == 0


@pytest.mark.parametrize(
    "result",
    [
        Result((Block("text", text=EVIL),)),
        Result((Block("text", text=EVIL),), is_error=True, failure=ToolFailure(EVIL, 1, EVIL, EVIL, EVIL)),
        Result((Block("link", name=EVIL, uri=f"javascript:{EVIL}", mime_type=EVIL),)),
        Result((Block("link", name=EVIL, uri=f"https://h/{EVIL}"),)),
        structured([{EVIL: EVIL}]),
        structured({EVIL: EVIL}),
        structured({EVIL: [EVIL]}),
        Tool(
            EVIL,
            EVIL,
            EVIL,
            ToolSpec(EVIL, EVIL, {"properties": {EVIL: {"description": EVIL, "enum": [EVIL]}}}),
            "",
        ),
        ToolList([ToolSummary(EVIL, EVIL, EVIL, EVIL)]),
    ],
)
def test_nothing_that_comes_from_outside_becomes_markup(result: Any) -> None:
    page = shown(result)
    assert page.count("script") == page.count("img") == 0
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    links = [attributes["href"] or "" for tag, attributes in page.tags if tag == "a"]
    assert all(link.startswith("https://h/") for link in links)


def test_everything_is_bounded() -> None:
    row = {f"column {number}": "x" * 1_000 for number in range(50)}
    many = [row] * 300
    for result in (
        structured(many),
        structured({"a": many}),
        structured({str(number): number for number in range(10_000)}),
        Result((Block("text", text="x" * 3_000_000),)),
        Result((Block("text", text="x" * 100_000),) * 1_000),
    ):
        assert len(result._repr_html_()) < 2_000_000
    page = shown(structured(many))
    assert page.text.endswith("… and 200 more rows… and 20 more columns")


def test_what_is_nested_too_deeply_is_not_shown() -> None:
    value: Any = []
    for _ in range(100_000):
        value = [value]
    assert shown(structured(value)).text == "(nested too deeply to be shown)"


def test_a_tool_shows_its_parameters_and_a_list_its_tools() -> None:
    schema = {
        "properties": {"path": {"type": "string", "description": "A file."}, "n": {"type": "integer"}},
        "required": ["path"],
    }
    page = shown(Tool("fs.read", "fs", "mcp", ToolSpec("read", "Reads a file.", schema), ""))
    assert (
        page.text == "fs.read mcp Reads a file. parametertypewhat it ispathstringA file.ninteger (optional)"
    )
    listed = ToolList([ToolSummary("fs.read", "fs", "mcp", "Reads a file. Slowly.")])
    assert shown(listed).text == "toolkindwhat it doesfs.readmcpReads a file"
    assert shown(ToolList()).text == "no tools"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(value=json_values, text=st.text())
def test_any_result_has_a_view(value: Any, text: str) -> None:
    shown(structured(value))
    shown(Result((Block("text", text=text), Block("link", uri=text, name=text)), is_error=True))
