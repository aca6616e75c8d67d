"""The dispatcher over a link that exists only here: what a process can hardly be made to do."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.mcp_protocol.errors import McpError
from spindle.mcp_protocol.names import PARSE_ERROR, REQUEST_TIMEOUT
from spindle.sources.mcp import dispatcher as dispatcher_module
from spindle.sources.mcp.answers import LinkLostError, MessageTooLargeError
from spindle.sources.mcp.dispatcher import MAX_QUEUED_NOTIFICATIONS, MAX_SERVER_REQUESTS, LinkDispatcher
from spindle.sources.mcp.exchange import CallExchange
from spindle.sources.mcp.link import EDGE
from spindle.sources.mcp.messages import AT_ONCE
from spindle.sources.mcp.pending import Pending, resume_all


class PaperLink:
    """Keeps what is written; a test plays the server."""

    brought: list[Pending] | None = None

    def __init__(self) -> None:
        self.written: list[dict[str, Any]] = []
        self.takes = True
        self.paused = False
        self.is_lost = False
        self.line: Callable[[bytes], None]
        self.too_long: Callable[[bytes, bytes], None]
        self.lose: Callable[[], None]

    def listen(
        self,
        on_line: Callable[[bytes], None],
        on_too_long: Callable[[bytes, bytes], None],
        on_lost: Callable[[], None],
    ) -> None:
        self.line, self.too_long, self.lose = on_line, on_too_long, on_lost

    @property
    def lost(self) -> bool:
        return self.is_lost

    async def write(self, line: bytes) -> bool:
        if self.takes:
            self.written.append(json.loads(line))
        return self.takes

    def write_at_once(self, line: bytes, *, together: bool = False) -> bool:
        self.write_now(line)
        return True

    def write_now(self, line: bytes) -> None:
        self.written.append(json.loads(line))

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """What is said inside comes in one piece, which is read outside of all tasks."""
        self.brought = brought = []
        yield
        self.brought = None
        asyncio.get_running_loop().call_soon(resume_all, brought)

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def epitaph(self) -> str:
        return "went away"

    def say(self, message: Any) -> None:
        self.line(json.dumps(message).encode())


class Handlers:
    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.noted: list[str] = []

    async def asked(self, method: str, params: Any) -> dict[str, Any]:
        if method == "wait":
            await self.gate.wait()
        if method == "fail":
            raise ValueError("a bug of ours")
        if method == "refuse":
            raise McpError(code=-32601, message="not here")
        return {"did": method}

    def told(self, method: str, params: Any) -> None:
        if method == "notifications/x" and "fault" in params:
            raise ValueError("another bug of ours")
        self.noted.append(method)

    def told_subscriber(self, method: str, params: Any) -> bool:
        return False


@contextlib.asynccontextmanager
async def dispatching() -> AsyncIterator[tuple[LinkDispatcher, PaperLink, Handlers]]:
    link, handlers = PaperLink(), Handlers()
    dispatcher = LinkDispatcher(link, 1000, heeded=frozenset({"wait", "notifications/x"}))
    dispatcher.listen(handlers)
    try:
        yield dispatcher, link, handlers
    finally:
        dispatcher.close()


async def settled() -> None:
    """Everything that can go on without the outside has gone on."""
    for _ in range(10):
        await asyncio.sleep(0)


def asking(dispatcher: LinkDispatcher, **options: Any) -> asyncio.Task[dict[str, Any]]:
    return asyncio.create_task(dispatcher.send_raw_request("tools/call", {"a": 1}, options))  # type: ignore[arg-type]


SHAPES = [
    '{{"jsonrpc":"2.0","id":{id},"result":{{{body}}}}}',
    '{{"jsonrpc": "2.0", "id": {id}, "result": {{{body}}}}}',
    '{{"jsonrpc": "2.0", "id": "{id}", "result": {{{body}}}}}',
    '{{"id":{id},"jsonrpc":"2.0","result":{{{body}}}}}',
    '{{"result":{{{body}}},"jsonrpc":"2.0","id":{id}}}',
    '{{ "result" : {{{body}}} , "id" : {id} , "jsonrpc" : "2.0" }}',
    '{{"result":{{{body}}},"id":"{id}","jsonrpc":"2.0"}}\r',
]


@pytest.mark.parametrize("shape", SHAPES)
async def test_an_answer_that_is_too_long_fails_the_request_it_belongs_to(shape: str) -> None:
    async with dispatching() as (dispatcher, link, _):
        first, second = asking(dispatcher), asking(dispatcher)
        await settled()
        line = shape.format(id=2, body='"text": "' + "x" * 5000 + '"').encode()
        link.too_long(line[:EDGE], line[-EDGE:])
        with pytest.raises(MessageTooLargeError):
            await second
        assert not first.done()
        link.say({"id": 1, "result": {}})
        assert await first == {}


@pytest.mark.parametrize(
    "decoy",
    [
        '"text": "\\"id\\":1}"',
        '"id": 1',
        '"inner": {"id": 1}',
        '"text": ",\\"id\\": 1, \\"jsonrpc\\":\\"2.0\\"}"',
    ],
)
async def test_an_id_inside_the_result_is_not_taken_for_the_answers_own(decoy: str) -> None:
    async with dispatching() as (dispatcher, link, _):
        first, second = asking(dispatcher), asking(dispatcher)
        await settled()
        line = (
            '{"result": {"text": "' + "x" * 5000 + '", ' + decoy + '}, "jsonrpc": "2.0", "id": 2}'
        ).encode()
        link.too_long(line[:EDGE], line[-EDGE:])
        with pytest.raises(MessageTooLargeError):
            await second
        assert not first.done()
        first.cancel()


async def test_an_answer_that_is_too_long_and_shows_no_id_fails_all_that_wait() -> None:
    async with dispatching() as (dispatcher, link, _):
        waiting = [asking(dispatcher) for _ in range(3)]
        await settled()
        link.too_long(b'{"result": {"a": "xxx', b"xxx")
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [MessageTooLargeError] * 3


@given(st.binary(max_size=300))
def test_no_bytes_of_a_server_break_the_dispatcher(junk: bytes) -> None:
    async def talk() -> dict[str, Any]:
        async with dispatching() as (dispatcher, link, _):
            task = asking(dispatcher)
            await settled()
            link.line(junk)
            link.say({"id": 1, "result": {"fine": True}})
            return await task

    assert asyncio.run(talk()) == {"fine": True}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
keys = st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error"])
methods = st.sampled_from(["notifications/progress", "notifications/message", "ping", "wait", ""])


@given(st.dictionaries(keys, json_values | methods, max_size=6))
def test_no_message_of_a_server_breaks_the_dispatcher(message: dict[str, Any]) -> None:
    async def talk() -> str:
        async with dispatching() as (dispatcher, link, handlers):
            handlers.gate.set()
            dispatcher._ids = 1000  # so that nothing made up answers the request below
            task = asking(dispatcher, on_progress=lambda *_: asyncio.sleep(0))
            await settled()
            link.say(message)
            await settled()
            link.say({"id": 1001, "result": {"fine": True}})
            return str(await task)

    assert asyncio.run(talk()) == "{'fine': True}"


async def test_a_request_that_could_not_be_written_was_not_sent() -> None:
    async with dispatching() as (dispatcher, link, _):
        link.takes = False
        with pytest.raises(LinkLostError, match="went away") as caught:
            await asking(dispatcher)
        assert caught.value.sent is False


async def test_a_request_on_a_lost_link_is_not_tried() -> None:
    async with dispatching() as (dispatcher, link, _):
        link.is_lost = True
        with pytest.raises(LinkLostError) as caught:
            await asking(dispatcher)
        await dispatcher.notify("notifications/x", None)
        assert caught.value.sent is False
        assert link.written == []


async def test_requests_in_flight_fail_as_sent_when_the_link_is_lost() -> None:
    async with dispatching() as (dispatcher, link, _):
        told: list[bool] = []
        dispatcher.when_lost(lambda: told.append(True))
        task = asking(dispatcher)
        await settled()
        link.lose()
        with pytest.raises(LinkLostError) as caught:
            await task
        await settled()
    assert caught.value.sent is True
    assert told == [True]


async def test_a_request_with_a_timeout_is_cancelled_at_the_server() -> None:
    async with dispatching() as (dispatcher, link, _):
        with pytest.raises(McpError) as caught:
            await asking(dispatcher, timeout=0.001)
        assert caught.value.code == REQUEST_TIMEOUT
        assert [message["method"] for message in link.written] == ["tools/call", "notifications/cancelled"]
        link.say({"id": 1, "result": {}})
        assert dispatcher.late_answers == 1


async def test_a_request_that_asks_not_to_be_cancelled_is_left_alone() -> None:
    async with dispatching() as (dispatcher, link, _):
        with pytest.raises(McpError):
            await asking(dispatcher, timeout=0.001, cancel_on_abandon=False)
        assert [message["method"] for message in link.written] == ["tools/call"]


async def test_an_id_that_is_in_use_is_refused() -> None:
    async with dispatching() as (dispatcher, _, __):
        first = asking(dispatcher, request_id="mine")
        await settled()
        with pytest.raises(ValueError, match="already in flight"):
            await asking(dispatcher, request_id="mine")
        first.cancel()


async def test_an_answer_that_cannot_be_read_fails_its_request() -> None:
    async with dispatching() as (dispatcher, link, _):
        task = asking(dispatcher)
        await settled()
        link.line(b'{"jsonrpc": "2.0", "id": 1, "result": {"x": Infinity')
        with pytest.raises(McpError) as caught:
            await task
        assert caught.value.code == PARSE_ERROR


async def test_a_notification_that_cannot_be_taken_costs_itself(caplog: pytest.LogCaptureFixture) -> None:
    async with dispatching() as (dispatcher, link, handlers):
        task = asking(dispatcher)
        await settled()
        link.say({"method": "notifications/x", "params": {"fault": True}})
        link.say({"method": "notifications/x"})
        link.say({"id": 1, "result": {"fine": True}})
        assert await task == {"fine": True}
        await settled()
    assert handlers.noted == ["notifications/x"]
    assert "another bug of ours" in caplog.text


async def test_reading_pauses_while_notifications_pile_up() -> None:
    async with dispatching() as (_, link, handlers):
        for _ in range(MAX_QUEUED_NOTIFICATIONS + 1):
            link.say({"method": "notifications/x"})
        assert link.paused
        while link.paused:
            await asyncio.sleep(0)
        assert len(handlers.noted) > MAX_QUEUED_NOTIFICATIONS // 2


async def test_requests_that_wait_fail_when_the_session_is_closed() -> None:
    async with dispatching() as (dispatcher, _, __):
        task = asking(dispatcher)
        await settled()
        dispatcher.close()
        with pytest.raises(LinkLostError, match="the session was closed"):
            await task


async def test_a_notification_that_nobody_acts_on_is_dropped() -> None:
    async with dispatching() as (_, link, handlers):
        link.say({"method": "notifications/message", "params": {"level": "info", "data": "x"}})
        link.say({"method": "notifications/x"})
        await settled()
        assert handlers.noted == ["notifications/x"]


async def test_a_server_that_asks_too_much_at_once_is_not_answered() -> None:
    async with dispatching() as (_, link, handlers):
        for number in range(MAX_SERVER_REQUESTS + 10):
            link.say({"id": number, "method": "wait"})
        await settled()
        handlers.gate.set()
        await settled()
        assert len(link.written) == MAX_SERVER_REQUESTS


async def test_a_servers_request_is_answered_whatever_happens_here(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with dispatching() as (_, link, __):
        for number, method in enumerate(["do", "refuse", "fail"]):
            link.say({"id": number, "method": method, "params": {}})
        await settled()
        answers = {message["id"]: message for message in link.written}
    assert answers[0]["result"] == {"did": "do"}
    assert answers[1]["error"] == {"code": -32601, "message": "not here"}
    assert answers[2]["error"]["code"] == -32603
    assert "a bug of ours" in caplog.text


async def test_a_slow_listener_hears_the_newest_progress_only() -> None:
    heard: list[float] = []
    gate = asyncio.Event()

    async def slow(progress: float, total: float | None, message: str | None) -> None:
        heard.append(progress)
        await gate.wait()

    async with dispatching() as (dispatcher, link, _):
        task = asking(dispatcher, on_progress=slow)
        await settled()
        for step in range(100):
            params = {"progressToken": 1, "progress": step if step != 50 else "half"}
            link.say({"method": "notifications/progress", "params": params})
            await settled()
        link.say({"id": 1, "result": {}})
        gate.set()
        await task
        link.say({"method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}})
    assert heard == [0, 99]


def large(request_id: Any) -> bytes:
    text = "x" * AT_ONCE
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "result": {"text": text}}).encode()


async def test_what_comes_after_a_large_line_waits_for_it_and_nothing_more_is_read_meanwhile() -> None:
    async with dispatching() as (dispatcher, link, handlers):
        asked = asking(dispatcher)
        await settled()
        link.line(large(link.written[0]["id"]))
        link.say({"jsonrpc": "2.0", "method": "notifications/x"})
        assert link.paused
        assert handlers.noted == []
        assert len((await asked)["text"]) == AT_ONCE
        while link.paused:
            await asyncio.sleep(0)
        await settled()
        assert handlers.noted == ["notifications/x"]
        assert not dispatcher.lost.done()


async def test_a_large_answer_is_taken_although_the_server_is_gone_before_it_is_read() -> None:
    async with dispatching() as (dispatcher, link, _):
        first, second = asking(dispatcher), asking(dispatcher)
        await settled()
        link.line(large(link.written[0]["id"]))
        link.is_lost = True
        link.lose()
        assert len((await first)["text"]) == AT_ONCE
        with pytest.raises(LinkLostError, match="went away"):
            await second
        assert dispatcher.lost.done()


async def test_a_line_that_is_too_long_fails_its_request_after_a_large_one_before_it() -> None:
    async with dispatching() as (dispatcher, link, _):
        first, second = asking(dispatcher), asking(dispatcher)
        await settled()
        link.line(large(link.written[0]["id"]))
        link.too_long(b'{"jsonrpc":"2.0","id":%d,"result":"' % link.written[1]["id"], b'"}')
        assert not second.done()
        assert len((await first)["text"]) == AT_ONCE
        with pytest.raises(MessageTooLargeError):
            await second


async def test_a_flood_of_notifications_leaves_others_their_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher_module, "TURN", -1.0)  # each takes longer than that
    seen: list[int] = []
    async with dispatching() as (_, link, handlers):
        for _ in range(5):
            link.say({"jsonrpc": "2.0", "method": "notifications/x"})
        while len(handlers.noted) < 5:
            seen.append(len(handlers.noted))
            await asyncio.sleep(0)
    assert set(seen) == {0, 1, 2, 3, 4}


# --- calls that are sent in one step


def calling(dispatcher: LinkDispatcher, ended: list[str], name: str = "call") -> asyncio.Task[dict[str, Any]]:
    """A call in a task of its own, which says when it goes on."""

    async def call() -> dict[str, Any]:
        coming = dispatcher.begin_call({"name": name}, {}, CallExchange())
        assert coming is not None
        try:
            return await coming
        finally:
            ended.append(name)

    return asyncio.create_task(call())


async def test_a_call_goes_on_where_its_answer_is_read_without_another_turn_of_the_loop() -> None:
    async with dispatching() as (dispatcher, link, _):
        ended: list[str] = []
        calls = [calling(dispatcher, ended, name) for name in ("first", "second")]
        await settled()
        with link.reading():
            for request_id in (2, 1):
                link.say({"jsonrpc": "2.0", "id": request_id, "result": {"of": request_id}})
            assert ended == [], "nobody goes on while lines are still read"
        await asyncio.sleep(0)  # one turn, in which the lines are read
        assert ended == ["second", "first"]
        assert [await call for call in calls] == [{"of": 1}, {"of": 2}]
        link.say({"jsonrpc": "2.0", "id": 1, "result": {}})
        assert dispatcher.late_answers == 1


async def test_what_a_server_tells_before_an_answer_is_taken_before_the_call_goes_on() -> None:
    async with dispatching() as (dispatcher, link, handlers):
        call = calling(dispatcher, handlers.noted)
        await settled()
        with link.reading():
            link.say({"jsonrpc": "2.0", "method": "notifications/x", "params": {}})
            link.say({"jsonrpc": "2.0", "id": 1, "result": {}})
        assert await call == {}
        assert handlers.noted == ["notifications/x", "call"]


async def test_a_call_that_is_cancelled_is_told_to_its_server_and_its_answer_comes_too_late() -> None:
    async with dispatching() as (dispatcher, link, _):
        ended: list[str] = []
        call = calling(dispatcher, ended)
        await settled()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert [message["method"] for message in link.written] == ["tools/call", "notifications/cancelled"]
        assert link.written[1]["params"]["requestId"] == link.written[0]["id"]
        with link.reading():
            link.say({"jsonrpc": "2.0", "id": 1, "result": {}})
        assert dispatcher.late_answers == 1
        assert ended == ["call"]


async def test_a_call_that_another_cancels_in_the_same_reading_ends_cancelled() -> None:
    async with dispatching() as (dispatcher, link, _):
        ended: list[str] = []
        second = calling(dispatcher, ended, "second")

        async def cancels() -> None:
            await calling(dispatcher, ended, "first")
            second.cancel()

        await settled()
        first = asyncio.create_task(cancels())
        await settled()
        with link.reading():
            link.say({"jsonrpc": "2.0", "id": 2, "result": {}})
        await first
        with pytest.raises(asyncio.CancelledError):
            await second


async def test_a_cancel_between_the_answer_and_its_task_wins() -> None:
    async with dispatching() as (dispatcher, link, _):
        call = calling(dispatcher, [])
        await settled()
        with link.reading():
            link.say({"jsonrpc": "2.0", "id": 1, "result": {}})
        call.cancel()  # the answer is there, and its task has not gone on yet
        with pytest.raises(asyncio.CancelledError):
            await call


async def test_errors_end_calls_that_were_sent_in_one_step_and_nothing_of_them_is_kept() -> None:
    async with dispatching() as (dispatcher, link, _):
        calls = [calling(dispatcher, [], str(number)) for number in range(4)]
        await settled()
        with link.reading():
            link.say({"jsonrpc": "2.0", "id": 1, "error": {"code": -5, "message": "no"}})
            link.line(b'{"jsonrpc": "2.0", "id": 2, "result": {')
            link.too_long(b'{"jsonrpc": "2.0", "id": 3, "result": {"content": ["', b'"]}}')
        link.is_lost = True
        link.lose()
        ends = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(end).__name__ for end in ends] == [
            "McpError", "UnreadableAnswerError", "MessageTooLargeError", "LinkLostError",
        ]  # fmt: skip
        assert not dispatcher._pending


async def test_the_others_go_on_when_one_ends_the_program() -> None:
    loop = asyncio.get_running_loop()
    ended: list[str] = []

    async def waits(pending: Pending, name: str, error: type[BaseException] | None) -> None:
        await pending
        ended.append(name)
        if error is not None:
            raise error

    pendings = [Pending(loop, number) for number in range(3)]
    errors = [None, KeyboardInterrupt, None]
    tasks = [
        asyncio.ensure_future(waits(pending, str(number), error))
        for number, (pending, error) in enumerate(zip(pendings, errors, strict=True))
    ]
    await settled()
    raised: list[str] = []

    def read() -> None:
        for pending in pendings:
            pending.take({})
        try:
            resume_all(pendings)
        except KeyboardInterrupt:
            raised.append("KeyboardInterrupt")

    loop.call_soon(read)
    await asyncio.wait(tasks)
    assert ended == ["0", "1", "2"]
    assert raised == ["KeyboardInterrupt"]
    assert isinstance(tasks[1].exception(), KeyboardInterrupt)
