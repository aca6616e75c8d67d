"""A run stops for a person, and goes on from where it was."""

from __future__ import annotations

import asyncio

import pytest

from runs.conftest import Open, TurnedClock, Workspace
from servers.leases import end_leases
from spindle import CallOptions, Finished, Paused, Principal
from spindle.errors import (
    ClientError,
    InputRequired,
    InvalidArgumentsError,
    NotFoundError,
    PermissionDeniedError,
)
from spindle.runs.executions import Executions
from spindle.runs.journal import RunJournal
from spindle.runs.outcomes import Outcome

DELETE_ASKS = '[sources.tools]\napprove = "delete"\n'


def only_token(outcome: Outcome) -> str:
    assert isinstance(outcome, Paused)
    (pause,) = outcome.pauses
    return pause.token


async def test_a_run_that_needs_nobody_writes_no_run(opened: Open, workspace: Workspace) -> None:
    async with opened() as app:
        outcome = await app.run("effect", name="x")
        assert isinstance(outcome, Finished)
        assert outcome.result.text == "did x"
        assert await app.store.runs(limit=9) == []
        assert [record.outcome for record in await app.history()] == ["ok"]


async def test_finished_steps_are_not_made_again(opened: Open, workspace: Workspace) -> None:
    async with opened() as app:
        outcome = await app.run("report", topic="cats")
        token = only_token(outcome)
        assert workspace.effects == ["cats one", "cats two"]
    async with opened() as app:
        done = await app.resume(token, "blue")
        assert isinstance(done, Finished)
        assert done.run_id == outcome.run_id
        assert done.result.text == "did cats one / did cats two / did cats blue"
        assert workspace.effects == ["cats one", "cats two", "cats blue"]
        records = [record.tool for record in await app.history() if record.tool == "effect"]
        assert len(records) == 3
        assert (await app.store.run(outcome.run_id)).status == "done"  # type: ignore[union-attr]


async def test_a_token_works_once(opened: Open) -> None:
    async with opened() as app:
        token = only_token(await app.run("report", topic="cats"))
        await app.resume(token, "blue")
        with pytest.raises(ClientError, match="was answered before") as caught:
            await app.resume(token, "blue")
        assert "`resume(" in (caught.value.hint or "")
        assert await app.pauses() == []


@pytest.mark.parametrize("is_seen", [False, True])
async def test_an_answer_in_the_moment_of_pausing_is_not_left_lying(
    opened: Open, workspace: Workspace, monkeypatch: pytest.MonkeyPatch, is_seen: bool
) -> None:
    """Two questions, answered one after the other: the second answer takes the run while the execution after
    the first one has just put it to rest, and looks for answers once more before it ends."""
    workspace.write(settings=DELETE_ASKS)
    was_answered, load = Executions._was_answered, Executions.load
    loaded = asyncio.Event()
    later: list[asyncio.Task[Outcome]] = []

    async with opened() as app:
        outcome = await app.run("clean", names=["a", "b"])
        assert isinstance(outcome, Paused)
        first, second = outcome.pauses

        async def looked(self: Executions, journal: RunJournal) -> bool:
            found = await was_answered(self, journal)
            if journal.run.status == "paused" and not later:
                later.append(asyncio.create_task(app.resume(second.token, {"approved": True})))
                await loaded.wait()
                found = await was_answered(self, journal) if is_seen else found
            return found

        async def read(self: Executions, id: str) -> RunJournal:
            found = await load(self, id)
            if later:
                loaded.set()
            return found

        monkeypatch.setattr(Executions, "_was_answered", looked)
        monkeypatch.setattr(Executions, "load", read)
        await app.resume(first.token, {"approved": True})
        done = await later[0]
        assert isinstance(done, Finished)
        assert sorted(workspace.effects) == ["deleted a", "deleted b"]
        assert (await app.store.run(outcome.run_id)).status == "done"  # type: ignore[union-attr]


async def test_a_done_run_shows_its_result_again(opened: Open, workspace: Workspace) -> None:
    async with opened() as app:
        outcome = await app.run("report", topic="cats")
        first = await app.resume(only_token(outcome), "blue")
        assert await app.resume(outcome.run_id) == first
        assert len(workspace.effects) == 3


async def test_an_unknown_token_is_said_to_be_unknown(opened: Open) -> None:
    async with opened() as app:
        token = only_token(await app.run("report", topic="cats"))
        with pytest.raises(NotFoundError, match="no pause and no run") as caught:
            await app.resume(token[:-2] + "xx", "blue")
        assert caught.value.hint == f"did you mean {token}?"


async def test_a_wrong_answer_leaves_the_token_good(opened: Open) -> None:
    async with opened() as app:
        token = only_token(await app.run("report_in_thread", topic="cats"))
        with pytest.raises(InvalidArgumentsError, match="is not of type") as caught:
            await app.resume(token, "many")
        assert caught.value.details[0]["path"] == "answer"
        done = await app.resume(token, 6)
        assert isinstance(done, Finished)
        assert done.result.text == "did cats one / did cats 7"


async def test_a_question_can_be_refused(opened: Open) -> None:
    async with opened() as app:
        token = only_token(await app.run("report", topic="cats"))
        done = await app.resume(token, refused="no colours today")
        assert isinstance(done, Finished)
        assert done.result.is_error
        assert "no colours today" in done.result.text


async def test_nobody_answers_for_somebody_else(opened: Open) -> None:
    ann, bob = Principal("ann"), Principal("bob")
    async with opened() as app:
        token = only_token(await app.run("report", {"topic": "cats"}, CallOptions(principal=ann)))
        with pytest.raises(PermissionDeniedError, match="'bob'"):
            await app.resume(token, "blue", principal=bob)
        assert [pause.token for pause in await app.pauses(principal=ann)] == [token]
        assert await app.pauses(principal=bob) == []
        assert isinstance(await app.resume(token, "blue", principal=ann), Finished)


async def test_a_bare_call_raises_the_pause(opened: Open) -> None:
    async with opened() as app:
        with pytest.raises(InputRequired, match="Which colour"):
            await app.call("report", topic="cats")
        assert await app.pauses() == []
        assert (await app.history(tool="report"))[0].outcome == "paused"


async def test_a_nested_tool_pauses_and_only_what_is_not_done_is_done(
    opened: Open, workspace: Workspace
) -> None:
    async with opened() as app:
        token = only_token(await app.run("nested", topic="dogs"))
        assert workspace.effects == ["before", "dogs one", "dogs two"]
        done = await app.resume(token, "red")
        assert isinstance(done, Finished)
        assert workspace.effects == ["before", "dogs one", "dogs two", "dogs red", "after"]


async def test_a_program_that_changed_its_arguments_gets_no_other_calls_result(
    opened: Open, workspace: Workspace
) -> None:
    async with opened() as app:
        token = only_token(await app.run("report", topic="cats"))
    file = workspace.root / "tools" / "work.py"
    file.write_text(file.read_text().replace('name=f"{topic} one"', 'name=f"{topic} first"'))
    async with opened() as app:
        done = await app.resume(token, "blue")
        assert isinstance(done, Finished)
        assert done.result.text == "did cats first / did cats two / did cats blue"
        assert workspace.effects == ["cats one", "cats two", "cats first", "cats blue"]


class TestApproval:
    async def test_exact_arguments_are_shown_and_nothing_happens_before(
        self, opened: Open, workspace: Workspace
    ) -> None:
        workspace.write(settings=DELETE_ASKS)
        async with opened() as app:
            outcome = await app.run("delete", name="x")
            assert isinstance(outcome, Paused)
            (pause,) = outcome.pauses
            assert pause.kind == "approval"
            assert pause.details == {"tool": "delete", "arguments": {"name": "x"}}
            assert workspace.effects == []
            done = await app.resume(pause.token, {"approved": True})
            assert isinstance(done, Finished)
            assert workspace.effects == ["deleted x"]

    async def test_the_approver_may_change_arguments(self, opened: Open, workspace: Workspace) -> None:
        workspace.write(settings=DELETE_ASKS)
        async with opened() as app:
            token = only_token(await app.run("delete", name="x"))
            with pytest.raises(InvalidArgumentsError):
                await app.resume(token, {"approved": True, "arguments": {"name": 3}})
            done = await app.resume(token, {"approved": True, "arguments": {"name": "y"}})
            assert isinstance(done, Finished)
            assert workspace.effects == ["deleted y"]

    async def test_a_refusal_is_a_permission_error_with_its_reason(
        self, opened: Open, workspace: Workspace
    ) -> None:
        workspace.write(settings=DELETE_ASKS)
        async with opened() as app:
            token = only_token(await app.run("delete", name="x"))
            with pytest.raises(PermissionDeniedError, match="not approved: too dear"):
                await app.resume(token, {"approved": False, "reason": "too dear"})
            assert workspace.effects == []
            (run,) = await app.store.runs(limit=1)
            assert run.status == "failed"

    async def test_destructive_tools_can_be_named_by_their_hint(
        self, opened: Open, workspace: Workspace
    ) -> None:
        workspace.write(settings='[sources.tools]\napprove = ["destructive"]\n')
        async with opened() as app:
            assert isinstance(await app.run("effect", name="x"), Finished)
            assert isinstance(await app.run("delete", name="x"), Paused)

    @pytest.mark.parametrize("answer", [None, "yes", {"approved": "yes"}, {"approve": True}, {"approved": 1}])
    async def test_only_a_clear_yes_is_one(self, opened: Open, workspace: Workspace, answer: object) -> None:
        workspace.write(settings=DELETE_ASKS)
        async with opened() as app:
            token = only_token(await app.run("delete", name="x"))
            with pytest.raises(InvalidArgumentsError):
                await app.resume(token, answer)
            assert workspace.effects == []

    async def test_parallel_siblings_are_asked_at_once_and_keep_their_tokens(
        self, opened: Open, workspace: Workspace
    ) -> None:
        workspace.write(settings=DELETE_ASKS)
        async with opened() as app:
            outcome = await app.run("clean", names=["a", "b", "c"])
            assert isinstance(outcome, Paused)
            tokens = {pause.details["arguments"]["name"]: pause.token for pause in outcome.pauses}
            assert sorted(tokens) == ["a", "b", "c"]
            again = await app.resume(tokens["b"], True)
            assert isinstance(again, Paused)
            assert {pause.token for pause in again.pauses} == {tokens["a"], tokens["c"]}
            assert workspace.effects == ["deleted b"]
            await app.resume(tokens["a"], True)
            done = await app.resume(tokens["c"], True)
            assert isinstance(done, Finished)
            assert done.result.structured == ["deleted a", "deleted b", "deleted c"]
            assert sorted(workspace.effects) == ["deleted a", "deleted b", "deleted c"]


async def test_an_expired_pause_says_so_and_the_run_can_ask_again(
    opened: Open, workspace: Workspace, turned: TurnedClock
) -> None:
    workspace.write(
        tools="""

@tool
def hurry(context: Context) -> str:
    return context.ask("Quick?", expires_in=60)
"""
    )
    async with opened(clock=turned.clock) as app:
        outcome = await app.run("hurry")
        token = only_token(outcome)
        turned.ahead = 61
        with pytest.raises(ClientError, match="has expired") as caught:
            await app.resume(token, "yes")
        assert caught.value.hint_for("shell") == f"`spindle resume {outcome.run_id}` asks again"
        assert await app.pauses() == []


async def test_a_run_of_a_dead_process_is_taken_over_when_its_lease_is_over(
    opened: Open, workspace: Workspace
) -> None:
    workspace.write(
        tools="""

@tool
async def stuck(context: Context) -> str:
    await context.call("effect", name="one")
    if not (EFFECTS.parent / "go").exists():
        (EFFECTS.parent / "waiting").touch()
        await asyncio.Event().wait()
    await context.call("effect", name="two")
    return "done"
"""
    )
    async with opened() as other, opened() as dying:
        work = asyncio.create_task(dying.run("stuck"))
        async with asyncio.timeout(300):
            while not (workspace.root / "waiting").exists():
                await asyncio.sleep(0)
            runs = await other.store.runs(limit=1)
            with pytest.raises(ClientError, match="another process executes"):
                await other.resume(runs[0].id)
            await end_leases(other.store)
            (workspace.root / "go").touch()
            done = await other.resume(runs[0].id)
        assert isinstance(done, Finished)
        assert workspace.effects == ["one", "two"]
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        stored = await other.store.run(runs[0].id)
        assert stored is not None
        assert stored.status == "done"
