"""What a run remembers of awkward programs: threads, groups, swallowed pauses, errors, late answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from runs.conftest import Open, Workspace
from spindle import CallOptions, Finished, Paused, Principal, Spindle
from spindle.calls.caller import Caller
from spindle.domain.source import SourceConfig
from spindle.errors import AuthError, AuthorizationRequired, SpindleError

ASKS = '[sources.tools]\napprove = "delete"\n'


def tokens(outcome: Any) -> list[str]:
    assert isinstance(outcome, Paused)
    return [pause.token for pause in outcome.pauses]


GROUPED = '''

@tool
async def grouped(context: Context) -> str:
    """One asks at once while its sibling is still at work; a task group then gives up the sibling."""
    async with asyncio.TaskGroup() as group:
        group.create_task(context.call("delete", name="x"))
        work = group.create_task(context.call("takes_long"))
    return work.result().text


@tool
async def takes_long() -> str:
    leave("begun")
    while not (EFFECTS.parent / "go").exists():
        await asyncio.sleep(0.001)
    leave("long")
    return "long done"
'''


async def test_a_sibling_in_flight_is_let_finish_and_not_made_again(
    opened: Open, workspace: Workspace
) -> None:
    workspace.write(GROUPED, ASKS)
    async with opened() as app:
        running = asyncio.create_task(app.run("grouped"))
        async with asyncio.timeout(300):
            while "begun" not in workspace.effects or not any(
                record.outcome == "paused" for record in await app.history(tool="delete")
            ):
                await asyncio.sleep(0.001)
        assert not running.done()
        (workspace.root / "go").touch()
        (token,) = tokens(await running)
        assert workspace.effects == ["begun", "long"]
        done = await app.resume(token, True)
        assert isinstance(done, Finished)
        assert done.result.text == "long done"
        assert workspace.effects == ["begun", "long", "deleted x"]


SWALLOWS = """

@tool
async def swallows(context: Context) -> str:
    got = await asyncio.gather(context.call("delete", name="x"), return_exceptions=True)
    await context.call("effect", name="after")
    try:
        answer = context.ask("Sure?")
    except BaseException:
        answer = "never mind"
    return f"{got[0].text} {answer}"


@tool
async def outer(context: Context) -> str:
    return (await context.call("swallows")).text
"""


@pytest.mark.parametrize("tool", ["swallows", "outer"])
async def test_a_program_cannot_swallow_a_pause(opened: Open, workspace: Workspace, tool: str) -> None:
    workspace.write(SWALLOWS, ASKS)
    async with opened() as app:
        (first,) = tokens(await app.run(tool))
        assert workspace.effects == []
        (second,) = tokens(await app.resume(first, True))
        done = await app.resume(second, "yes")
        assert isinstance(done, Finished)
        assert done.result.text == "deleted x yes"
        assert workspace.effects == ["deleted x", "after"]


CATCHES = """
from spindle import SpindleError

@tool
async def catches(context: Context) -> str:
    try:
        await context.call("nowhere")
        problem = "none"
    except SpindleError as error:
        problem = f"{type(error).__name__} {error.category} {error.hint}"
    failed = await context.call("fails")
    answer = context.ask("And now?")
    return f"{problem} / {failed.text} {failed.is_error} / {answer}"


@tool
def fails() -> str:
    leave("failed")
    raise ValueError("as always")
"""


async def test_errors_that_a_program_was_told_are_told_again(opened: Open, workspace: Workspace) -> None:
    workspace.write(CATCHES)
    async with opened() as app:
        (token,) = tokens(await app.run("catches"))
        workspace.write(CATCHES + "\n\n@tool\ndef nowhere() -> str:\n    return 'found'\n")
        done = await app.resume(token, "on")
        assert isinstance(done, Finished)
        assert done.result.text.startswith("NotFoundError not_found ")
        assert done.result.text.endswith(" / ValueError: as always True / on")
        assert workspace.effects == ["failed"]


POOL = """
from concurrent.futures import ThreadPoolExecutor

@tool
def pool(context: Context) -> list[str]:
    with ThreadPoolExecutor(3) as threads:
        names = ["a", "b", "c"]
        return [r.text for r in threads.map(lambda name: context.call_blocking("delete", name=name), names)]
"""


async def test_threads_of_a_tools_own_are_part_of_the_run(opened: Open, workspace: Workspace) -> None:
    workspace.write(POOL, ASKS)
    async with opened() as app:
        outcome: Any = await app.run("pool")
        for _ in range(3):
            outcome = await app.resume(tokens(outcome)[0], True)
        assert isinstance(outcome, Finished)
        assert outcome.result.structured == ["deleted a", "deleted b", "deleted c"]
        assert sorted(workspace.effects) == ["deleted a", "deleted b", "deleted c"]


async def test_an_async_tool_is_told_not_to_block(opened: Open, workspace: Workspace) -> None:
    workspace.write("\n\n@tool\nasync def blocks(context: Context) -> str:\n"
                    "    return context.call_blocking('effect', name='x').text\n")  # fmt: skip
    async with opened() as app:
        done = await app.run("blocks")
        assert isinstance(done, Finished)
        assert "this call blocks, which an async tool must not do" in done.result.text


LATE = """

@tool
async def both(context: Context) -> str:
    one, two = await asyncio.gather(context.call("delete", name="a"), context.call("delete", name="b"))
    return f"{one.text} {two.text}"


@tool
async def delete_slowly(name: str, context: Context) -> str:
    leave(f"slow {name}")
    while not (EFFECTS.parent / f"go {name}").exists():
        await asyncio.sleep(0.001)
    return name


@tool
async def both_slowly(context: Context) -> str:
    one, two = await asyncio.gather(
        context.call("delete_slowly", name="a"), context.call("delete_slowly", name="b")
    )
    return f"{one.text} {two.text}"
"""


async def test_an_answer_that_comes_while_the_run_executes_is_found(
    opened: Open, workspace: Workspace
) -> None:
    workspace.write(LATE, '[sources.tools]\napprove = "delete_slowly"\n')
    async with opened() as app, opened() as other:
        outcome = await app.run("both_slowly")
        assert isinstance(outcome, Paused)
        by_name = {pause.details["arguments"]["name"]: pause.token for pause in outcome.pauses}
        running = asyncio.create_task(app.resume(by_name["a"], True))
        async with asyncio.timeout(300):
            while "slow a" not in workspace.effects:
                await asyncio.sleep(0.001)
            noted = await other.resume(by_name["b"], True)
            assert type(noted).__name__ == "Continuing"
            (workspace.root / "go b").touch()
            (workspace.root / "go a").touch()
            done = await running
        assert isinstance(done, Finished)
        assert done.result.text == "a b"
        assert sorted(workspace.effects) == ["slow a", "slow b"]


class Provider:
    """Has a token for those who gave consent."""

    def __init__(self) -> None:
        self.agreed: set[str] = set()
        self.link = "https://login.example/1"

    async def token(self, source: str, config: SourceConfig, principal: Principal) -> str:
        if principal.id not in self.agreed:
            raise AuthorizationRequired(
                f"{source} needs your consent", source=source, expires_at=600.0,
                details={"url": self.link, "provider": "Example", "scopes": ["read"]},
            )  # fmt: skip
        return f"token of {principal.id}"

    async def token_after(
        self, source: str, config: SourceConfig, principal: Principal, refused: str, error: SpindleError
    ) -> str | None:
        return None

    async def needs_login(self, source: str, principal: Principal) -> bool:
        return principal.id not in self.agreed


OAUTH = '[sources.tools.auth]\ntype = "oauth"\n'


def with_provider(app: Any, provider: Provider) -> Caller:
    app.caller._credentials._tokens = provider
    return app.caller


async def synced(app: Spindle, provider: Provider) -> None:
    """The tools are known, but nobody's consent is in force any more."""
    with_provider(app, provider)
    provider.agreed.add("local")
    await app.sync()
    provider.agreed.clear()


class TestConsent:
    async def test_all_runs_that_wait_for_a_consent_go_on_when_it_is_given(
        self, opened: Open, workspace: Workspace
    ) -> None:
        provider = Provider()
        ann, bob = Principal("ann"), Principal("bob")
        workspace.write(settings=OAUTH)
        async with opened() as app:
            with_provider(app, provider)
            provider.agreed.add("local")
            await app.sync()
            for who in (ann, ann, bob):
                outcome = await app.run("effect", {"name": who.id}, CallOptions(principal=who))
                assert isinstance(outcome, Paused)
                (pause,) = outcome.pauses
                assert pause.details["url"] == provider.link
                assert pause.expires_at == 600.0
            provider.agreed.add("ann")
            done = await app.runner.resume_consent("tools", ann)
            assert [type(outcome) for outcome in done] == [Finished, Finished]
            assert workspace.effects == ["ann", "ann"]
            assert [pause.principal for pause in await app.pauses()] == [bob]

    async def test_a_user_who_says_no_is_heard(self, opened: Open, workspace: Workspace) -> None:
        workspace.write(settings=OAUTH)
        provider = Provider()
        async with opened() as app:
            await synced(app, provider)
            await app.run("effect", name="x")
            (error,) = await app.runner.resume_consent("tools", Principal(), denied="access_denied")
            assert isinstance(error, AuthError)
            assert "access_denied" in error.message
            assert workspace.effects == []

    async def test_resuming_too_early_asks_again_with_the_link_of_now(
        self, opened: Open, workspace: Workspace
    ) -> None:
        workspace.write(settings=OAUTH)
        provider = Provider()
        async with opened() as app:
            await synced(app, provider)
            (first,) = tokens(await app.run("effect", name="x"))
            provider.link = "https://login.example/2"
            again = await app.resume(first)
            assert isinstance(again, Paused)
            assert again.pauses[0].details["url"] == provider.link
            provider.agreed.add("local")
            assert isinstance(await app.resume(again.pauses[0].token), Finished)


HURRIED = """

@tool
async def hurried(context: Context) -> str:
    return context.ask('When?')
"""


async def test_a_thousand_paused_runs_leave_nothing_running(opened: Open, workspace: Workspace) -> None:
    workspace.write(HURRIED)
    async with opened() as app:
        await app.run("effect", name="warm")
        await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        before = asyncio.all_tasks()
        for _ in range(10):
            outcomes = await asyncio.gather(*(app.run("hurried") for _ in range(100)))
            assert all(isinstance(outcome, Paused) for outcome in outcomes)
        await asyncio.sleep(0)
        assert len(await app.pauses()) == 1000
        assert asyncio.all_tasks() == before
        timers = [timer for timer in loop._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]
        # What is left is the session's own, one for all calls, and one for all records.
        assert len(timers) <= 3
