"""What every kind of source must do, whatever is behind it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import spindle
from contract.kinds import KINDS, PROPERTIES, Kind, Request
from contract.kinds.kind import SOURCE
from contract.leftovers import Leftovers
from servers.running import PATIENCE
from spindle import Principal
from spindle.app import Spindle
from spindle.calls.options import CallOptions
from spindle.domain.call import Call, Result
from spindle.domain.identity import NO_CREDENTIAL, Credential
from spindle.errors import BreakerOpenError, CallTimeoutError, ConnectionFailedError, SpindleError
from spindle.ports.source import RelaySession, RelaySource
from spindle.settings import Settings

AT_ONCE = 20


@pytest.fixture
async def kind(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Kind]:
    async with KINDS[request.param](request, tmp_path) as entered:
        yield entered


every = pytest.mark.parametrize("kind", KINDS, indirect=True)


def those_with(prop: str) -> pytest.MarkDecorator:
    """The kinds that do not say why this cannot be asked of them."""
    assert prop in PROPERTIES
    names = [name for name, kind in KINDS.items() if prop not in kind.lacks]
    return pytest.mark.parametrize("kind", names, indirect=True)


@contextlib.asynccontextmanager
async def opened(kind: Kind, changed: dict[str, Any] | None = None, **options: Any) -> AsyncIterator[Spindle]:
    """`changed` are settings of the source."""
    sources = {**kind.sources, SOURCE: {**kind.sources[SOURCE], **(changed or {})}}
    settings = Settings(kind.root, {"sources": sources, "store": ":memory:"})
    async with spindle.open(settings=settings, **options) as app:
        yield app


async def call(app: Spindle, request: Request, **options: Any) -> Result:
    async with asyncio.timeout(PATIENCE):
        return await app.call(f"{SOURCE}.{request.tool}", request.arguments, CallOptions(**options))


async def works(app: Spindle, kind: Kind, text: str = "still there") -> None:
    assert kind.said(await call(app, kind.echo(text))) == text


@pytest.mark.parametrize("name", KINDS)
def test_what_cannot_be_asked_of_a_kind_has_a_reason(name: str) -> None:
    for prop, reason in KINDS[name].lacks.items():
        assert prop in PROPERTIES
        assert len(reason.split()) > 3


@every
async def test_all_tools_are_discovered(kind: Kind) -> None:
    async with opened(kind) as app:
        (report,) = await app.sync(SOURCE)
        assert report.error is None
        found = {tool.name for tool in await app.tools() if tool.source == SOURCE}
    assert found == {f"{SOURCE}.{name}" for name in kind.tools}


@every
async def test_a_call_takes_its_arguments_there_and_its_result_back(kind: Kind) -> None:
    text = "two words, an ümlaut, a 'quote' & 100%"
    async with opened(kind) as app:
        result = await call(app, kind.echo(text))
    assert not result.is_error
    assert kind.said(result) == text


@those_with("an error of the tool")
async def test_an_error_of_the_tools_own_says_what_the_tool_says(kind: Kind) -> None:
    async with opened(kind) as app:
        if kind.failure is None:
            result = await call(app, kind.fail())
            assert result.is_error
            assert kind.complaint in result.text
        else:
            with pytest.raises(kind.failure, match=kind.complaint):
                await call(app, kind.fail())
        await works(app, kind)


async def hanging(app: Spindle, kind: Kind, **options: Any) -> asyncio.Task[Result]:
    """A call that is under way and will not end by itself."""
    task = asyncio.create_task(call(app, kind.hang(), **options), name="hanging")
    arrived = asyncio.create_task(kind.begun())
    await asyncio.wait({task, arrived}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        task.result()
    await arrived
    return task


@every
async def test_a_cancelled_call_ends_and_the_source_goes_on(kind: Kind) -> None:
    async with opened(kind) as app:
        task = await hanging(app, kind)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await works(app, kind)


@those_with("ending at the source")
async def test_a_cancelled_call_ends_at_the_source_too(kind: Kind) -> None:
    async with opened(kind) as app:
        task = await hanging(app, kind)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await kind.over()


@every
async def test_a_call_that_takes_too_long_is_a_timeout_and_the_source_goes_on(kind: Kind) -> None:
    async with opened(kind) as app:
        await works(app, kind, "first")
        with pytest.raises(CallTimeoutError) as caught:
            await call(app, kind.hang(), timeout=0.05)
        assert caught.value.source == SOURCE
        await works(app, kind)


@those_with("lost link")
async def test_a_lost_link_is_a_typed_error_and_the_next_call_has_a_new_one(kind: Kind) -> None:
    async with opened(kind) as app:
        task = await hanging(app, kind)
        await kind.lose()
        with pytest.raises(SpindleError) as caught:
            await task
        assert caught.value.category == "connection"
        assert caught.value.sent or kind.repeatable
        await kind.restore()
        await works(app, kind)


@those_with("lost link")
async def test_a_link_lost_between_two_calls_is_replaced_without_a_word(kind: Kind) -> None:
    async with opened(kind) as app:
        await works(app, kind, "before")
        await kind.lose()
        await kind.restore()
        await works(app, kind, "after")


@those_with("lost link")
async def test_a_call_to_what_is_gone_is_told_that_it_never_left(kind: Kind) -> None:
    async with opened(kind) as app:
        await works(app, kind)
        await kind.lose()
        try:
            await works(app, kind)
        except SpindleError as error:
            assert error.category == "connection"  # noqa: PT017 - what starts again by itself raises nothing
            assert not error.sent  # noqa: PT017
        await kind.restore()
        await works(app, kind)


@every
async def test_of_many_calls_at_once_each_gets_its_own_answer(kind: Kind) -> None:
    texts = [f"number {number}" for number in range(AT_ONCE)]
    async with opened(kind) as app:
        results = await asyncio.gather(*(call(app, kind.echo(text)) for text in texts))
    assert [kind.said(result) for result in results] == texts


@those_with("answers out of order")
async def test_answers_in_another_order_find_their_calls(kind: Kind) -> None:
    texts = [f"number {number}" for number in range(AT_ONCE)]
    async with opened(kind) as app:
        await works(app, kind)
        kind.shuffle(AT_ONCE)
        results = await asyncio.gather(*(call(app, kind.echo(text)) for text in texts))
    assert [kind.said(result) for result in results] == texts


@those_with("credentials")
async def test_of_many_calls_at_once_each_shows_its_own_principals_credential(kind: Kind) -> None:
    async def provide(source: str, principal: Principal) -> Credential | None:
        return kind.credential(principal.id) if source == SOURCE and principal.id in ("ann", "bob") else None

    people = ["ann", "bob"] * (AT_ONCE // 2)
    async with opened(kind, credentials=provide) as app:
        await app.sync()
        asked = (call(app, kind.whoami(), principal=Principal(who)) for who in people)
        results = await asyncio.gather(*asked)
    assert [kind.said(result) for result in results] == [kind.shown(who) for who in people]


def own_credentials(kind: Kind) -> Any:
    """A credential for each of ann and bob, to open with."""

    async def provide(source: str, principal: Principal) -> Credential | None:
        return kind.credential(principal.id) if source == SOURCE and principal.id in ("ann", "bob") else None

    return provide


@those_with("credentials")
async def test_one_users_calls_without_an_answer_close_the_way_for_nobody_else(kind: Kind) -> None:
    ann, bob = Principal("ann"), Principal("bob")
    async with opened(kind, {"breaker": {"failures": 2}}, credentials=own_credentials(kind)) as app:
        assert kind.said(await call(app, kind.whoami(), principal=ann)) == kind.shown("ann")
        for _ in range(2):
            with pytest.raises(CallTimeoutError):
                await call(app, kind.hang(), principal=ann, timeout=0.05)
        assert kind.said(await call(app, kind.whoami(), principal=bob)) == kind.shown("bob")
        with pytest.raises(BreakerOpenError):
            await call(app, kind.whoami(), principal=ann)


SHARED = [name for name, kind in KINDS.items() if not {"lost link", "credentials"} & kind.lacks.keys()]


@pytest.mark.parametrize("kind", SHARED, indirect=True)
async def test_what_cannot_be_reached_is_left_alone_for_all_and_what_each_has_to_itself_is_not(
    kind: Kind,
) -> None:
    changed = {"breaker": {"failures": 2}, "retry": {"attempts": 1}}
    async with opened(kind, changed, credentials=own_credentials(kind)) as app:
        tool = await app.catalog.find(f"{SOURCE}.{kind.whoami().tool}", Principal("ann"))
        await kind.lose()
        if app.catalog.sources.get(SOURCE).server_of(tool) is None:
            assert kind.said(await call(app, kind.whoami(), principal=Principal("bob"))) == kind.shown("bob")
            return
        ann, bob = (
            await failures_until_refused(app, kind, "ann"),
            await failures_until_refused(app, kind, "bob"),
        )
        # One may be of a session that was open before, which is its user's own.
        assert ann == 2
        assert bob in (0, 1)


async def failures_until_refused(app: Spindle, kind: Kind, who: str) -> int:
    """Calls until the source is left alone, and returns how often that failed before."""
    for count in range(9):
        try:
            await call(app, kind.whoami(), principal=Principal(who))
        except BreakerOpenError:
            return count
        except ConnectionFailedError:
            continue
        raise AssertionError("nobody is there to answer")
    raise AssertionError("it was never left alone")


@those_with("credentials")
async def test_a_session_shows_its_own_credential_and_where_it_says_so_every_calls(kind: Kind) -> None:
    async with opened(kind) as app:
        await app.sync()
        request = kind.whoami()
        tool = await app.catalog.find(f"{SOURCE}.{request.tool}")
        ann, bob = kind.credential("ann"), kind.credential("bob")
        async with app.catalog.sources.get(SOURCE).open(ann, lambda: None) as session:
            served = {"ann": ann, "bob": bob} if session.per_call_credentials else {"ann": ann}
            for who, credential in served.items():
                made = Call(tool.name, request.arguments, credential=credential)
                assert kind.said(await session.invoke(tool, made)) == kind.shown(who)


@every
async def test_only_a_source_that_relays_has_sessions_that_do(kind: Kind) -> None:
    async with opened(kind) as app:
        source = app.catalog.sources.get(SOURCE)
        async with source.open(NO_CREDENTIAL, lambda: None) as session:
            assert isinstance(session, RelaySession) == isinstance(source, RelaySource)
        assert app.catalog.sources.relays(SOURCE) == isinstance(source, RelaySource)


@every
async def test_nothing_is_left_behind_when_a_workspace_is_closed(kind: Kind) -> None:
    async with opened(kind) as app:
        await works(app, kind)  # what is made once and kept for good is there now
    before = Leftovers()
    async with opened(kind) as app:
        await works(app, kind)
        task = await hanging(app, kind)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    del task
    await before.none()


@every
async def test_a_call_that_runs_when_its_workspace_is_closed_ends(kind: Kind) -> None:
    before = Leftovers()
    async with opened(kind) as app:
        await works(app, kind)
        task = await hanging(app, kind)
    async with asyncio.timeout(PATIENCE):
        (outcome,) = await asyncio.gather(task, return_exceptions=True)
    assert isinstance(outcome, (SpindleError, asyncio.CancelledError))
    del task
    await before.none()
