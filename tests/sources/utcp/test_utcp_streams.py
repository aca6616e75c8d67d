"""Event streams and streamed answers: what is collected, and what ends them."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import JSONResponse
from utcp_service import OpenManual, Service, a_manual, a_tool

from servers.running import PATIENCE, OpenSources, Signal
from spindle.errors import CallTimeoutError, ConnectionFailedError, ResultTooLargeError, ServerError
from spindle.sources.utcp.streams import events, lines

ITEMS = [{"n": 1}, "plain\ntext", {"n": 2}, "ünï"]


def sse(service: Service, path: str = "/events", **more: Any) -> dict[str, Any]:
    return {"call_template_type": "sse", "url": f"{service.url}{path}", **more}


def streamed(service: Service, path: str = "/lines", **more: Any) -> dict[str, Any]:
    return {"call_template_type": "streamable_http", "url": f"{service.url}{path}", **more}


async def test_events_are_collected_in_order_and_reported(open_manual: OpenManual, service: Service) -> None:
    progress = Signal()
    async with open_manual(a_manual(a_tool("t", sse(service)))) as opened:
        result = await opened.call("t", on_progress=progress, q=True)
    assert result.structured == ITEMS
    assert progress.seen[1] == (2, None, "plain\ntext")
    assert service.seen[-1]["query"] == [("q", "true")]


async def test_only_events_of_one_type_are_kept(open_manual: OpenManual, service: Service) -> None:
    manual = a_manual(
        a_tool("tick", sse(service, event_type="tick")), a_tool("rest", sse(service, event_type="message"))
    )
    async with open_manual(manual) as opened:
        assert (await opened.call("tick")).structured == [{"n": 1}, {"n": 2}]
        assert (await opened.call("rest")).structured == ["plain\ntext", "ünï"]


async def test_a_body_makes_the_request_a_post(open_manual: OpenManual, service: Service) -> None:
    json = {"Content-Type": "application/json"}
    manual = a_manual(
        a_tool("json", sse(service, body_field="b", headers=json)),
        a_tool("form", sse(service, body_field="b")),
    )
    async with open_manual(manual) as opened:
        await opened.call("json", b={"a": 1})
        await opened.call("form", b={"a": 1})
    assert [(seen["method"], seen["body"]) for seen in service.seen] == [("POST", '{"a":1}'), ("POST", "a=1")]


async def test_a_stream_that_breaks_off_is_an_error(open_manual: OpenManual, service: Service) -> None:
    async with open_manual(a_manual(a_tool("t", sse(service, "/cut")))) as opened:
        with pytest.raises(ConnectionFailedError, match="lost 'shop' while it answered"):
            await opened.call("t")
    assert len(service.seen) == 1


async def test_a_stream_with_ids_is_taken_up_where_it_broke_off(
    open_manual: OpenManual, service: Service
) -> None:
    manual = a_manual(
        a_tool("t", sse(service, "/cut")), a_tool("never", sse(service, "/cut", reconnect=False))
    )
    async with open_manual(manual) as opened:
        assert (await opened.call("t", ids=1)).structured == [1, 2]
        with pytest.raises(ConnectionFailedError):
            await opened.call("never", ids=1)
    assert [seen["headers"].get("last-event-id") for seen in service.seen] == [None, "1", None]


async def test_an_answer_that_is_no_stream_is_an_error(open_manual: OpenManual, service: Service) -> None:
    service.pages["/json"] = JSONResponse({"error": "no"})
    service.pages["/busy"] = JSONResponse({"error": "busy"}, 500)
    manual = a_manual(a_tool("json", sse(service, "/json")), a_tool("busy", sse(service, "/busy")))
    async with open_manual(manual) as opened:
        with pytest.raises(ServerError, match="event stream, not application/json"):
            await opened.call("json")
        with pytest.raises(ServerError, match="status 500: busy"):
            await opened.call("busy")


async def test_giving_up_a_call_closes_its_stream(open_manual: OpenManual, service: Service) -> None:
    async with open_manual(a_manual(a_tool("t", sse(service, "/endless")))) as opened:
        call = asyncio.create_task(opened.call("t"))
        async with asyncio.timeout(PATIENCE):
            await service.streaming.wait()
            call.cancel()
            await service.closed.wait()
        with pytest.raises(asyncio.CancelledError):
            await call


async def test_a_stream_is_bounded_in_size(open_manual: OpenManual, service: Service) -> None:
    async with open_manual(
        a_manual(a_tool("t", sse(service, "/endless"))), max_result_size=100_000
    ) as opened:
        with pytest.raises(ResultTooLargeError):
            await opened.call("t", more=1)
    async with asyncio.timeout(PATIENCE):
        await service.closed.wait()


async def test_a_stream_is_bounded_in_time(
    open_sources: OpenSources, open_manual: OpenManual, service: Service
) -> None:
    service.tools = [a_tool("t", sse(service, "/endless"))]
    source = {"kind": "utcp", "document": f"{service.url}/utcp", "timeout": 0.2}
    async with open_sources({"shop": source}) as app:
        with pytest.raises(CallTimeoutError, match=r"did not answer within 0\.[12]"):
            await app.call("shop.t")
    slow = streamed(service, "/endless", timeout=200)
    async with open_manual(a_manual(a_tool("t", slow))) as opened:
        with pytest.raises(CallTimeoutError, match="`timeout` of its call template"):
            await opened.call("t")


async def test_lines_of_json_are_items(open_manual: OpenManual, service: Service) -> None:
    template = streamed(service, http_method="POST", body_field="b", content_type="application/json")
    async with open_manual(a_manual(a_tool("t", template))) as opened:
        result = await opened.call("t", b=[1])
    assert result.structured == [{"method": "POST", "body": "[1]"}, {"n": 2}, [3], "ä"]


async def test_other_streams_are_one_piece(open_manual: OpenManual, service: Service) -> None:
    async with open_manual(a_manual(a_tool("t", streamed(service, "/bytes")))) as opened:
        data = await opened.call("t")
        json = await opened.call("t", type="application/json")
        text = await opened.call("t", type="text/plain")
    assert data.content[0].size == 6000
    assert json.structured == [{"a": 1}]
    assert text.text == '{"a": 1}'


async def test_the_manual_describes_an_item_of_a_stream(open_manual: OpenManual, service: Service) -> None:
    item = {"type": "object", "properties": {"n": {"type": "integer"}}}
    tool = {**a_tool("t", sse(service)), "outputs": item}
    async with open_manual(a_manual(tool)) as opened:
        assert opened.tools["t"].output_schema == {"type": "array", "items": item}


async def _pieces(data: bytes, cuts: list[int]) -> Any:
    start = 0
    for cut in sorted(cuts):
        yield data[start:cut]
        start = max(start, cut)
    yield data[start:]


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), min_size=1), min_size=1
    ),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.lists(st.integers(0, 200), max_size=8),
)
async def test_wherever_a_stream_is_cut_its_lines_are_the_same(
    texts: list[str], end: str, cuts: list[int]
) -> None:
    texts[0] = "x" + texts[0]
    data = "".join(text + end for text in texts).encode()
    assert [line async for line in lines(_pieces(data, cuts))] == texts
    stream = "".join(f"data: {text}{end}{end}" for text in texts).encode()
    assert [event.data async for event in events(_pieces(stream, cuts))] == texts
