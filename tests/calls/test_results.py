"""What comes back: checked against what the tool promised, large content kept as files."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from made_source import OpenDesk, spec, text

from spindle import Block, Tool
from spindle.domain.call import INLINE_LIMIT, Call, Result
from spindle.errors import ServerError, StoreError

POINT = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}


def giving(result: Result) -> Any:
    async def answer(_tool: Tool, _call: Call) -> Result:
        return result

    return answer


async def test_a_result_that_fits_its_schema_is_given_as_it_came(desk: OpenDesk) -> None:
    given = Result(text('{"x": 1}').content, structured={"x": 1, "more": [None]}, has_structured=True)
    async with desk(spec(output_schema=POINT), answer=giving(given)) as d:
        assert await d.call("made.do") == given


async def test_a_result_that_does_not_fit_is_an_error_that_says_where(desk: OpenDesk) -> None:
    given = Result(structured={"x": "one"}, has_structured=True)
    async with desk(spec(output_schema=POINT), answer=giving(given)) as d:
        with pytest.raises(ServerError, match='x: "one" is not of type "integer"') as caught:
            await d.call("made.do")
        record = await d.last()
        assert len(d.source.calls) == 1
    assert caught.value.tool == "made.do"
    assert record.outcome == "server"


async def test_a_result_that_is_wrong_as_a_whole_is_called_so(desk: OpenDesk) -> None:
    given = Result(structured=None, has_structured=True)
    async with desk(spec(output_schema=POINT), answer=giving(given)) as d:
        with pytest.raises(ServerError, match="schema: the result: null is not of type"):
            await d.call("made.do")


async def test_a_promised_structure_that_is_missing_is_an_error(desk: OpenDesk) -> None:
    async with desk(spec(output_schema=POINT), answer=giving(text('{"x": 1}'))) as d:
        with pytest.raises(ServerError, match="promises structured output and gave none"):
            await d.call("made.do")


async def test_null_is_a_structure_where_the_schema_allows_it(desk: OpenDesk) -> None:
    given = Result(structured=None, has_structured=True)
    async with desk(spec(output_schema={"type": "null"}), answer=giving(given)) as d:
        assert (await d.call("made.do")).has_structured


async def test_an_error_of_the_tool_need_not_have_the_structure(desk: OpenDesk) -> None:
    async with desk(spec(output_schema=POINT), answer=giving(text("no", is_error=True))) as d:
        assert (await d.call("made.do")).is_error


async def test_of_an_output_schema_with_a_fault_the_rest_is_checked(desk: OpenDesk) -> None:
    given = Result(structured={}, has_structured=True)
    async with desk(spec(output_schema={"type": 7}), answer=giving(given)) as d:
        assert (await d.call("made.do")).structured == {}
        assert (await d.app.show("made.do")).faults == ("output schema: type: must be types of JSON, not 7",)
    stricter = spec("other", output_schema={"type": 7, "required": ["a"]})
    async with desk(stricter, answer=giving(given)) as d:
        await d.app.sync()
        with pytest.raises(ServerError, match='"a" is a required property'):
            await d.call("made.other")


async def test_large_content_goes_to_a_file_and_the_rest_stays_where_it_is(desk: OpenDesk) -> None:
    large, small = b"\x00\xff" * INLINE_LIMIT, b"small"
    encoded = base64.b64encode(large).decode()
    blocks = (
        Block("text", text="before"),
        Block("image", data=encoded, mime_type="image/png", annotations={"priority": 1}),
        Block("audio", data=base64.b64encode(small).decode(), mime_type="audio/wav"),
        Block("resource", data=encoded, uri="x://y"),
    )
    async with desk(spec(), answer=giving(Result(blocks))) as d:
        content = (await d.call("made.do")).content
    assert (content[0], content[2]) == (blocks[0], blocks[2])
    image, resource = content[1], content[3]
    assert (image.data, image.size, image.mime_type) == (None, len(large), "image/png")
    assert image.annotations == {"priority": 1}
    assert resource.uri == "x://y"
    assert image.path is not None
    assert resource.path is not None
    assert image.path.endswith(".png")
    assert Path(image.path).read_bytes() == Path(resource.path).read_bytes() == large


async def test_content_at_the_limit_stays_inline(desk: OpenDesk) -> None:
    data = base64.b64encode(bytes(INLINE_LIMIT)).decode()
    async with desk(spec(), answer=giving(Result((Block("image", data=data),)))) as d:
        assert (await d.call("made.do")).content[0].data == data


async def test_large_content_that_is_not_base64_is_given_as_it_came(desk: OpenDesk) -> None:
    data = "%" * INLINE_LIMIT * 2
    async with desk(spec(), answer=giving(Result((Block("image", data=data),)))) as d:
        assert (await d.call("made.do")).content[0].data == data
        assert "a large image could not be kept as a file" in d.notes[0]


async def test_base64_in_lines_is_read(desk: OpenDesk) -> None:
    large = bytes(INLINE_LIMIT * 2)
    data = base64.encodebytes(large).decode()
    async with desk(spec(), answer=giving(Result((Block("image", data=data),)))) as d:
        path = (await d.call("made.do")).content[0].path
    assert path is not None
    assert Path(path).read_bytes() == large


async def test_a_result_is_not_lost_because_its_content_cannot_be_kept(
    desk: OpenDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = base64.b64encode(bytes(INLINE_LIMIT * 2)).decode()

    async def full(_data: bytes, _mime_type: str | None) -> str:
        raise StoreError("the disk is full")

    async with desk(spec(), answer=giving(Result((Block("image", data=data),)))) as d:
        monkeypatch.setattr(d.app.files, "keep", full)
        assert (await d.call("made.do")).content[0].data == data
        assert "the disk is full" in d.notes[0]
