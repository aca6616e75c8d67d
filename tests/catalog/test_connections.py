"""Sessions and their owners, with sources that fail in ways a real one does only now and then."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from servers.running import PATIENCE
from spindle.catalog.connections import Connections
from spindle.domain.call import Call, Result
from spindle.domain.identity import Credential
from spindle.domain.source import SourceConfig
from spindle.domain.tool import Tool, ToolSpec
from spindle.errors import AuthError, ConnectionFailedError, SpindleError
from spindle.ports.source import Session

NOBODY = Credential()


class PaperSession(Session):
    def __init__(self) -> None:
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def discover(self) -> list[ToolSpec]:
        raise AssertionError("these tests only open and close")

    async def invoke(self, tool: Tool, call: Call) -> Result:
        raise AssertionError("these tests only open and close")

    @property
    def is_lost(self) -> bool:
        return self.lost.done()

    async def wait_closed(self) -> str:
        return await self.lost


class PaperSource:
    """Opens sessions as it is told."""

    def __init__(self) -> None:
        self.opened: list[PaperSession] = []
        self.closed = 0
        self.fails: BaseException | None = None
        self.hangs = False
        self.refuses_to_close = 0

    @contextlib.asynccontextmanager
    async def open(self, credential: Credential, on_change: Callable[[], None]) -> AsyncIterator[Any]:
        if self.hangs:
            await asyncio.Event().wait()
        if self.fails is not None:
            raise self.fails
        session = PaperSession()
        self.opened.append(session)
        try:
            yield session
        finally:
            while self.refuses_to_close > 0:
                self.refuses_to_close -= 1
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.Event().wait()
            self.closed += 1


@contextlib.asynccontextmanager
async def connecting(**settings: Any) -> AsyncIterator[tuple[Callable[..., Any], PaperSource, Connections]]:
    source, connections = PaperSource(), Connections(lambda _name: None, "0" * 16)
    config = SourceConfig(kind="paper", **settings)

    def session(credential: Credential = NOBODY) -> Any:
        return connections.session("s", source, config, credential)  # type: ignore[arg-type]

    try:
        async with asyncio.timeout(PATIENCE):
            yield session, source, connections
    finally:
        await connections.close()


@pytest.mark.parametrize(
    ("failure", "kind", "message"),
    [
        (RuntimeError("a bug"), ConnectionFailedError, "cannot open 's': a bug"),
        (ExceptionGroup("many", [ValueError("inside")]), ConnectionFailedError, "cannot open 's': inside"),
        (ExceptionGroup("many", [AuthError("who are you?")]), AuthError, "who are you"),
        (OSError(), ConnectionFailedError, "cannot open 's': OSError"),
        (asyncio.CancelledError(), ConnectionFailedError, "the session with 's' broke off"),
    ],
)
async def test_whatever_an_opening_raises_reaches_the_caller_as_a_typed_error(
    failure: BaseException, kind: type[SpindleError], message: str
) -> None:
    async with connecting() as (session, source, _):
        source.fails = failure
        with pytest.raises(kind, match=message) as caught:
            async with session():
                pass
        assert caught.value.source == "s"
        source.fails = None
        async with session() as opened:
            assert opened is source.opened[0]


async def test_parallel_callers_share_one_opening_and_one_failure() -> None:
    async with connecting() as (session, source, _):
        source.fails = OSError("nobody home")

        async def attempt() -> None:
            async with session():
                pass

        outcomes = await asyncio.gather(*(attempt() for _ in range(10)), return_exceptions=True)
    assert {str(outcome) for outcome in outcomes} == {"cannot open 's': nobody home"}


async def test_an_owner_that_its_own_session_cancels_is_replaced() -> None:
    async with connecting() as (session, source, connections):
        async with session():
            (connection,) = connections._alive
            connection.task.cancel()
            await asyncio.wait([connection.task])
        assert source.closed == 1
        assert connection.lost_because == "the session with 's' broke off"
        async with session() as opened:
            assert opened is source.opened[1]


async def test_a_lost_session_is_replaced() -> None:
    async with connecting() as (session, _, connections):
        async with session() as first:
            (connection,) = connections._alive
            first.lost.set_result("the server left")
            await asyncio.wait([connection.task])
        assert connection.lost_because == "the server left"
        async with session() as second:
            assert second is not first


async def test_a_lost_session_takes_no_call_also_before_its_owner_has_heard_of_the_loss() -> None:
    async with connecting() as (session, _, _), session() as first:
        first.lost.set_result("the server left")
        async with session() as second:
            assert second is not first


async def test_calls_that_wait_for_room_go_in_turn_and_share_what_is_opened_for_one_of_them() -> None:
    async with connecting(max_sessions=1) as (session, source, connections):
        went: list[str] = []
        gates = {who: asyncio.Event() for who in "bc"}

        async def use(who: str) -> None:
            async with session(Credential(env=(("who", who),))):
                went.append(who)
                await gates[who].wait()

        async with session():
            tasks = []
            for number, who in enumerate("bbcb", 1):
                tasks.append(asyncio.create_task(use(who)))
                while len(connections.lines.get("s", ())) < number:
                    await asyncio.sleep(0)
        while len(went) < 3:
            await asyncio.sleep(0)
        assert went == ["b", "b", "b"]
        gates["b"].set()
        gates["c"].set()
        await asyncio.gather(*tasks)
        assert went == ["b", "b", "b", "c"]
        assert len(source.opened) == 3
        assert not connections.lines


async def test_who_waits_for_room_is_told_when_all_is_closed() -> None:
    async with connecting(max_sessions=1) as (session, _, connections):
        waiting = asyncio.Event()

        async def hold() -> None:
            async with session():
                waiting.set()
                await asyncio.Event().wait()

        async def wait() -> None:
            async with session(Credential(env=(("who", "b"),))):
                raise AssertionError("there is no room")

        holding = asyncio.create_task(hold())
        await waiting.wait()
        asking = asyncio.create_task(wait())
        while not connections.lines:
            await asyncio.sleep(0)
        await connections.close()
        outcomes = await asyncio.gather(holding, asking, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ConnectionFailedError] * 2
    assert "this Spindle was closed" in str(outcomes[1])


async def test_who_stops_waiting_for_room_leaves_the_line_to_the_next() -> None:
    async with connecting(max_sessions=1) as (session, _, connections):
        served: list[str] = []

        async def use(who: str) -> None:
            async with session(Credential(env=(("who", who),))):
                served.append(who)

        async with session():
            tasks = []
            for number, who in enumerate("bc", 1):
                tasks.append(asyncio.create_task(use(who)))
                while len(connections.lines.get("s", ())) < number:
                    await asyncio.sleep(0)
            tasks[0].cancel()
            await asyncio.wait(tasks[:1])
        await tasks[1]
        assert served == ["c"]
        assert not connections.lines


async def test_a_session_on_which_nothing_was_sent_ends_with_its_last_user() -> None:
    async with connecting() as (session, source, connections):
        async with session() as first:
            (connection,) = connections._alive
            with pytest.raises(ConnectionFailedError):
                async with session():
                    raise ConnectionFailedError("refused", sent=False)
            async with session() as second:
                assert second is not first
            assert not connection.task.done()
        await asyncio.wait([connection.task])
        assert source.closed == 1


async def test_an_error_of_another_source_does_not_end_the_session() -> None:
    async with connecting() as (session, _, __):
        async with session() as first:
            pass
        with pytest.raises(ConnectionFailedError):
            async with session():
                raise ConnectionFailedError("refused", sent=False, source="another")
        async with session() as second:
            assert second is first


async def test_an_opening_that_takes_too_long_is_given_up() -> None:
    async with connecting(connect_timeout=0.01) as (session, source, connections):
        source.hangs = True
        with pytest.raises(ConnectionFailedError, match="was not ready within"):
            async with session():
                pass
        assert not connections._open


async def test_an_opening_that_nobody_waits_for_any_more_may_fail_in_silence() -> None:
    async with connecting() as (session, source, connections):
        source.hangs = True

        async def attempt() -> None:
            async with session():
                pass

        task = asyncio.create_task(attempt())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        await connections.close()
        assert not connections._alive


async def test_a_session_that_does_not_end_when_told_is_made_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spindle.catalog.connection.CLOSE_TIMEOUT", 0.01)
    async with connecting() as (session, source, connections):
        source.refuses_to_close = 1
        async with session():
            pass
        await connections.close()
        assert source.closed == 1
        with pytest.raises(ConnectionFailedError, match="was closed"):
            async with session():
                pass


async def test_closing_one_source_leaves_the_app_in_use() -> None:
    async with connecting() as (session, source, connections):
        async with session():
            pass
        await connections.close_source("another")
        assert source.closed == 0
        await connections.close_source("s")
        assert source.closed == 1
        async with session() as opened:
            assert opened is source.opened[1]


async def test_a_caller_whose_session_is_closed_goes_on_with_a_typed_error() -> None:
    async with connecting() as (session, source, connections):
        waiting, told = asyncio.Event(), False

        async def use() -> None:
            nonlocal told
            async with session():
                waiting.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    told = source.closed == 0

        async def caller() -> str:
            with pytest.raises(ConnectionFailedError, match="'s' was closed before it answered") as caught:
                await use()
            assert caught.value.sent
            await asyncio.sleep(0)
            return "went on"

        task = asyncio.create_task(caller())
        await waiting.wait()
        await connections.close_source("s")
        assert await task == "went on"
        assert told, "the session must still be there when its source is to be told"
        assert source.closed == 1


async def test_a_caller_that_somebody_else_cancels_too_stays_cancelled() -> None:
    async with connecting() as (session, _, connections):
        waiting = asyncio.Event()

        async def caller() -> None:
            async with session():
                waiting.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(caller())
        await waiting.wait()
        closing = asyncio.create_task(connections.close())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await closing


async def test_a_call_inside_a_call_is_told_once_that_both_sessions_are_closed() -> None:
    async with connecting() as (session, _, connections):
        waiting, other = asyncio.Event(), Credential(headers=(("a", "b"),))

        async def caller() -> None:
            async with session(), session(other):
                waiting.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(caller())
        await waiting.wait()
        await connections.close()
        with pytest.raises(ConnectionFailedError, match="was closed before it answered"):
            await task
        assert task.cancelling() == 0
