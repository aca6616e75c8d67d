"""What every store must do for runs, secrets and leases."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet

from contract.openers import OPENERS
from spindle.adapters.state_store import RunsIn, StateStoreOf
from spindle.auth.encryption import Sealer
from spindle.domain.identity import Principal, Secret
from spindle.domain.run import Pause, Run, RunEvent, RunStatus
from spindle.errors import NotFoundError, StoreError
from spindle.ports import store as ports
from spindle.ports.store import RunStore, Store
from spindle.stores.sqlite import SqliteStore

ANN = Principal("ann", frozenset({"staff", "admins"}))
LEASE = 1000.0
"""Longer than any test."""
ENDED = 0.0
"""A lease that was over when it began."""


def a_run(id: str = "r1", **fields: Any) -> Run:
    values: dict[str, Any] = {"principal": ANN, "created_at": 1.0, "updated_at": 1.0, "owner": "p1",
                              "lease": LEASE}  # fmt: skip
    return Run("report", id=id, **{**values, **fields})


def a_pause(token: str = "t1", run: str = "r1", **fields: Any) -> Pause:
    values: dict[str, Any] = {"message": "waits", "principal": ANN, "created_at": 2.0, "source": "mail",
                              "tool": "mail.send", "sealed": b"\x00sealed\xff"}  # fmt: skip
    return Pause(token, run, f"/x?{token}", "consent", **{**values, **fields})


async def paused(store: RunStore, *pauses: Pause, run: str = "r1") -> None:
    assert await store.save_run(a_run(run, status="paused", lease=None), pauses=pauses or (a_pause(run=run),))


async def timeless(store: RunStore, id: str) -> Run | None:
    """The run without the lease, which gets shorter all the time."""
    found = await store.run(id)
    return found and dataclasses.replace(found, lease=None)


def step(path: str, sealed: bytes = b"done", run: str = "r1") -> RunEvent:
    return RunEvent(run, "step", 1.0, path, sealed)


class RunStoreContract:
    """Also what another framework's state store does for our runs; here it is our own, offered to others."""

    @pytest.fixture(params=[*OPENERS, "another framework's"])
    async def store(self, request: pytest.FixtureRequest) -> AsyncIterator[RunStore]:
        opened = await OPENERS.get(request.param, OPENERS["sqlite file"])(request)
        key = Fernet.generate_key().decode()
        yield opened if request.param in OPENERS else RunsIn(StateStoreOf(opened, Sealer(lambda: [key])))
        await opened.close()


class TestRuns(RunStoreContract):
    async def test_a_run_comes_back_as_it_was_saved(self, store: RunStore) -> None:
        run = a_run(kind="call", error={"category": "tool", "message": "ünïcode 🎉"})
        assert await store.save_run(run)
        found = await store.run("r1")
        assert found is not None
        assert dataclasses.replace(found, lease=LEASE) == run
        assert found.lease is not None
        assert 0 < found.lease <= LEASE
        assert await store.run("nothing") is None

    async def test_saving_again_changes_how_it_stands(self, store: RunStore) -> None:
        await store.save_run(a_run())
        ended = a_run(status="done", updated_at=5.0, lease=None)
        await store.save_run(ended)
        assert await store.run("r1") == ended
        assert await store.runs(limit=9) == [ended]

    async def test_a_run_is_found_by_a_beginning_that_only_it_has(self, store: RunStore) -> None:
        await store.save_run(a_run("abc1"))
        await store.save_run(a_run("abd2"))
        assert await timeless(store, "abc") == a_run("abc1", lease=None)
        with pytest.raises(NotFoundError, match="several runs"):
            await store.run("ab")

    async def test_runs_are_listed_newest_first_and_filtered(self, store: RunStore) -> None:
        for number in range(3):
            await store.save_run(a_run(f"r{number}", status="paused" if number else "done"))
        await store.save_run(a_run("other", principal=Principal("bob")))
        assert [run.id for run in await store.runs(limit=2)] == ["other", "r2"]
        assert [run.id for run in await store.runs(limit=-1)] == ["other", "r2", "r1", "r0"]
        assert [run.id for run in await store.runs(limit=9, status="paused")] == ["r2", "r1"]
        assert [run.id for run in await store.runs(limit=9, principal="bob")] == ["other"]
        assert [run.id for run in await store.runs(limit=1, before="r2")] == ["r1"]
        assert await store.runs(limit=9, before="nothing") == []

    async def test_the_newest_event_is_another_once_a_run_has_gone_on(self, store: RunStore) -> None:
        assert await store.newest_event() == 0
        await store.save_run(a_run(), [RunEvent("r1", "started", 1.0)])
        first = await store.newest_event()
        assert await store.newest_event() == first > 0
        await store.save_events(a_run(), [step("/a")])
        assert await store.newest_event() > first

    async def test_runs_are_found_by_kind_and_name_behind_many_others(self, store: RunStore) -> None:
        for id, kind, name in (("a", "flow", "x"), ("b", "flow", "y"), ("c", "call", "x")):
            await store.save_run(dataclasses.replace(a_run(id), kind=kind, name=name))
        for number in range(3):
            await store.save_run(a_run(f"r{number}"))
        assert [run.id for run in await store.runs(limit=2, kind="flow")] == ["b", "a"]
        assert [run.id for run in await store.runs(limit=2, name="x")] == ["c", "a"]
        assert [run.id for run in await store.runs(limit=2, kind="flow", name="x")] == ["a"]

    async def test_events_come_back_in_the_order_in_which_they_were_saved(self, store: RunStore) -> None:
        events = [RunEvent("r1", "step", float(9 - n), f"/x:{n}", bytes([n, 0, 255])) for n in range(5)]
        await store.save_run(a_run(), events[:2])
        await store.save_run(a_run("r2"), [RunEvent("r2", "started", 1.0)])
        for some in (events[2:4], events[4:], []):
            assert await store.save_events(a_run(), some)
        assert await store.history("r1") == events
        assert await store.history("nothing") == []

    async def test_events_that_are_saved_at_once_are_saved_as_others_are(self, store: RunStore) -> None:
        events = [RunEvent("r1", "step", float(n), f"/x:{n}", bytes([n, 0, 255])) for n in range(12)]
        await store.save_run(a_run())
        for some in (events[:1], events[1:3], [], events[3:]):
            if store.save_events_at_once(a_run(), some) is None:  # a store that has to wait
                assert await store.save_events(a_run(), some)
        assert await store.history("r1") == events
        # Once more: a write may be repeated, and adds nothing.
        assert store.save_events_at_once(a_run(), events[:2]) in (True, None)
        assert await store.history("r1") == events

    async def test_two_objects_see_each_others_runs(self, two_stores: tuple[Store, Store]) -> None:
        one, other = two_stores
        await paused(one)
        assert (await other.pause("t1")) == a_pause()
        assert await other.claim("t1", b"yes", "p2", LEASE, 20.0) == "claimed"
        assert (await one.run("r1")).owner == "p2"  # type: ignore[union-attr]


async def test_a_run_its_events_and_its_pauses_are_saved_together_or_not_at_all(store: Store) -> None:
    timeless: Any = None
    with pytest.raises(StoreError):
        await store.save_run(a_run(), [step("/a"), RunEvent("r1", "step", timeless, "/b")], [a_pause()])
    assert await store.run("r1") is None
    assert await store.history("r1") == []
    assert await store.pause("t1") is None


class TestPauses(RunStoreContract):
    async def test_a_pause_comes_back_as_it_was_saved(self, store: RunStore) -> None:
        pause = a_pause(expires_at=99.5)
        await paused(store, pause)
        assert await store.pause("t1") == pause
        assert await store.pause("nothing") is None

    async def test_a_pause_that_is_there_stays_as_it_is(self, store: RunStore) -> None:
        await paused(store)
        await store.claim("t1", b"yes", "p1", LEASE, 20.0)
        held = a_run(status="paused", generation=2)
        assert await store.save_run(held, pauses=[a_pause(message="other", state="answered")])
        found = await store.pause("t1")
        assert found is not None
        assert (found.message, found.state, found.answer) == ("waits", "answered", b"yes")

    async def test_pauses_are_listed_oldest_first_and_filtered(self, store: RunStore) -> None:
        bobs = a_pause("t3", "r2", principal=Principal("bob"), source="disk")
        await paused(store, a_pause("t1"), a_pause("t2"))
        await paused(store, bobs, run="r2")
        await store.claim("t1", None, "p1", LEASE, 20.0)
        assert [pause.token for pause in await store.pauses()] == ["t2", "t3"]
        assert [pause.token for pause in await store.pauses(waiting=False)] == ["t1", "t2", "t3"]
        assert {pause.state for pause in await store.answered(10)} <= {"answered"}
        assert len(await store.answered(1)) <= 1
        assert [pause.token for pause in await store.pauses(run="r1")] == ["t2"]
        assert await store.pauses(principal="bob") == [bobs]
        assert await store.pauses(source="disk") == [bobs]

    async def test_waits_are_listed_by_their_end_and_nothing_else_is(self, store: RunStore) -> None:
        waits = [
            dataclasses.replace(a_pause(f"w{end:g}", expires_at=end), kind="wait")
            for end in (30.0, 10.0, 20.0)
        ]
        endless = dataclasses.replace(a_pause("endless"), kind="wait")
        await paused(store, *waits, endless, a_pause("person", expires_at=5.0))
        assert [pause.token for pause in await store.due(10)] == ["w10", "w20", "w30"]
        assert [pause.token for pause in await store.due(1)] == ["w10"]
        await store.claim("w10", b"came", "p1", LEASE, 1.0)
        assert [pause.token for pause in await store.due(10)] == ["w20", "w30"]

    async def test_the_first_answer_claims_the_run_and_the_second_is_refused(self, store: RunStore) -> None:
        await paused(store)
        assert await store.claim("t1", b"yes", "p2", LEASE, 20.0) == "claimed"
        run = await store.run("r1")
        assert run is not None
        assert (run.status, run.owner, run.generation) == ("running", "p2", 2)
        assert run.lease is not None
        assert 0 < run.lease <= LEASE
        assert await store.claim("t1", b"no", "p3", LEASE, 21.0) == "used"
        assert (await store.pause("t1")).answer == b"yes"  # type: ignore[union-attr]

    async def test_an_answer_to_a_run_that_executes_is_noted(self, store: RunStore) -> None:
        await paused(store, a_pause("t1"), a_pause("t2"))
        await store.claim("t1", None, "p1", LEASE, 20.0)
        assert await store.claim("t2", b"too", "p2", LEASE, 21.0) == "noted"
        run = await store.run("r1")
        assert run is not None
        assert (run.owner, run.generation) == ("p1", 2)

    async def test_a_cancelled_run_can_be_taken_up_again_and_one_that_is_done_cannot(
        self, store: RunStore
    ) -> None:
        for status, free in (("cancelled", True), ("paused", True), ("done", False), ("failed", False)):
            await store.save_run(a_run(status, status=status))  # type: ignore[arg-type]
            assert await store.take_run(status, "p2", LEASE, 20.0) is free
            assert not await store.take_run(status, "p3", LEASE, 21.0)

    async def test_an_answer_takes_a_run_over_whose_owner_died(self, store: RunStore) -> None:
        await paused(store, a_pause("t1"), a_pause("t2"))
        await store.claim("t1", None, "p1", ENDED, 20.0)
        assert await store.claim("t2", b"too", "p2", LEASE, 50.0) == "claimed"

    async def test_what_is_unknown_or_too_late_is_said(self, store: RunStore) -> None:
        await paused(store, a_pause(expires_at=30.0))
        assert await store.claim("nothing", None, "p1", LEASE, 20.0) == "unknown"
        assert await store.claim("t1", None, "p1", LEASE, 30.0) == "expired"
        assert (await store.pause("t1")).state == "waiting"  # type: ignore[union-attr]
        assert (await store.run("r1")).status == "paused"  # type: ignore[union-attr]

    async def test_of_many_that_claim_at_once_one_succeeds(self, two_stores: tuple[Store, Store]) -> None:
        await paused(two_stores[0])
        claims = await asyncio.gather(
            *(two_stores[n % 2].claim("t1", b"%d" % n, f"p{n}", LEASE, 20.0) for n in range(50))
        )
        assert sorted(claims) == ["claimed"] + ["used"] * 49
        run, pause = await two_stores[0].run("r1"), await two_stores[0].pause("t1")
        assert run is not None
        assert pause is not None
        assert run.owner == f"p{claims.index('claimed')}"
        assert pause.answer == b"%d" % claims.index("claimed")


class TestLeasesOfRuns(RunStoreContract):
    async def test_a_run_is_taken_only_when_nobody_executes_it(self, store: RunStore) -> None:
        await store.save_run(a_run())
        await store.save_run(a_run("dead", lease=ENDED))
        assert not await store.take_run("r1", "p2", LEASE, 9.0)
        assert await store.take_run("dead", "p2", LEASE, 9.0)
        assert (await store.run("dead")).owner == "p2"  # type: ignore[union-attr]
        assert not await store.take_run("dead", "p3", LEASE, 9.0)
        assert not await store.take_run("nothing", "p2", LEASE, 10.0)

    async def test_a_process_with_shorter_leases_takes_nothing_from_one_with_longer(
        self, store: RunStore
    ) -> None:
        await store.save_run(a_run(lease=ports.LEASE))
        assert not await store.take_run("r1", "p2", 1.0, 9.0)
        await paused(store, a_pause(run="r2"), run="r2")
        assert await store.take_run("r2", "p1", ports.LEASE, 1.0)
        assert await store.claim("t1", b"yes", "p2", 1.0, 9.0) == "noted"

    async def test_a_paused_run_is_taken_and_an_ended_one_is_not(self, store: RunStore) -> None:
        await paused(store)
        assert await store.take_run("r1", "p2", LEASE, 1.0)
        assert await store.save_run(a_run(status="done", owner="p2", generation=2, lease=None))
        assert not await store.take_run("r1", "p3", LEASE, 80.0)

    async def test_renewing_tells_which_runs_are_still_held(self, store: RunStore) -> None:
        mine, taken, ended = a_run("mine", lease=ENDED), a_run("taken", lease=ENDED), a_run("ended")
        for run in (mine, taken, dataclasses.replace(ended, status="done")):
            await store.save_run(run)
        assert await store.take_run("taken", "p1", ENDED, 5.0)
        assert await store.renew_leases([mine, taken, ended, a_run("nothing")], LEASE) == {"mine"}
        assert not await store.take_run("mine", "p2", LEASE, 5.0)
        assert await store.take_run("taken", "p2", LEASE, 5.0)
        assert await store.renew_leases([], LEASE) == set()


class TestOneHolder(RunStoreContract):
    """A process that was stopped, lost its run and woke up can write nothing of it."""

    @pytest.fixture
    async def late(self, store: RunStore) -> Run:
        """The run as its first holder has it, after another has taken it over."""
        run = a_run(lease=ENDED)
        assert await store.save_run(run, [step("/a")], [a_pause("t1")])
        assert await store.take_run("r1", "p2", LEASE, 9.0)
        return run

    async def test_a_late_holder_writes_no_event(self, store: RunStore, late: Run) -> None:
        assert not await store.save_events(late, [step("/b", b"late")])
        assert not store.save_events_at_once(late, [step("/b", b"late")])
        assert [event.path for event in await store.history("r1")] == ["/a"]

    @pytest.mark.parametrize("status", ["running", "paused", "done", "failed", "cancelled"])
    async def test_a_late_holder_says_nothing_of_how_it_stands(
        self, store: RunStore, late: Run, status: RunStatus
    ) -> None:
        before = await timeless(store, "r1")
        closing = [a_pause("t1", state="answered"), a_pause("t2")]
        stands = dataclasses.replace(late, status=status, error={"message": "late"}, lease=None)
        assert not await store.save_run(stands, [step("/b", b"late")], closing)
        assert await timeless(store, "r1") == before
        assert [event.path for event in await store.history("r1")] == ["/a"]
        assert [pause.token for pause in await store.pauses()] == ["t1"]

    async def test_a_late_holder_renews_nothing(self, store: RunStore, late: Run) -> None:
        assert await store.renew_leases([late], LEASE) == set()

    async def test_the_same_process_is_late_too_if_it_took_the_run_again(self, store: RunStore) -> None:
        run = a_run(lease=ENDED)
        await store.save_run(run)
        assert await store.take_run("r1", "p1", LEASE, 9.0)
        assert not await store.save_events(run, [step("/a")])
        assert await store.save_events(dataclasses.replace(run, generation=2), [step("/a")])

    async def test_nobody_writes_to_a_run_that_rests(self, store: RunStore) -> None:
        await paused(store)
        assert not await store.save_events(a_run(), [step("/a")])
        assert not await store.save_run(a_run(status="done"))

    async def test_the_first_outcome_of_a_step_wins_and_a_repeated_write_changes_nothing(
        self, store: RunStore
    ) -> None:
        first = step("/a", b"first")
        await store.save_run(a_run(), [first])
        assert await store.save_events(a_run(), [first, step("/a", b"second"), step("/b")])
        found = await store.history("r1")
        assert [(event.path, event.sealed) for event in found] == [("/a", b"first"), ("/b", b"done")]

    async def test_each_beginning_of_a_call_is_kept_and_its_outcome_beside_it(self, store: RunStore) -> None:
        """A call that was begun twice has two beginnings: what is known is the last one."""
        begun = [RunEvent("r1", "begun", float(at), path, b"p%d" % at) for at, path in ((1, "/a"), (2, "/b"))]
        assert await store.save_run(a_run(), begun)
        again = RunEvent("r1", "begun", 3.0, "/a", b"p3")
        after = [again, step("/a"), RunEvent("r1", "stopped", 4.0, "/b")]
        assert await store.save_events(a_run(), after)
        assert await store.save_events(a_run(), [again, step("/a", b"second")])
        assert await store.history("r1") == [*begun, *after]

    async def test_a_late_holder_cannot_note_that_it_begins_a_call(self, store: RunStore, late: Run) -> None:
        """So it does not send it: noting comes before."""
        assert not await store.save_events(late, [RunEvent("r1", "begun", 9.0, "/b", b"late")])
        assert [event.kind for event in await store.history("r1")] == ["step"]

    async def test_a_step_may_lie_deep_below_others(self, store: RunStore) -> None:
        deep = [step("".join(f"/{number}:{n}" for number in range(3000))) for n in range(2)]
        assert await store.save_run(a_run(), deep)
        assert await store.save_events(a_run(), [step(deep[0].path, b"second")])
        assert await store.history("r1") == deep

    async def test_closing_a_pause_spares_an_answer_that_is_there(self, store: RunStore) -> None:
        await store.save_run(a_run(), pauses=[a_pause("t1"), a_pause("t2")])
        assert await store.claim("t1", b"yes", "p2", LEASE, 9.0) == "noted"
        closing = [a_pause("t1", state="answered"), a_pause("t2", state="answered")]
        assert await store.save_run(a_run(status="done", lease=None), pauses=closing)
        assert [pause.answer for pause in await store.pauses(waiting=False)] == [b"yes", None]
        assert await store.claim("t2", b"late", "p2", LEASE, 9.0) == "used"


async def test_of_takers_and_holders_at_once_each_write_is_before_or_after(
    two_stores: tuple[Store, Store],
) -> None:
    """What the holder could write is what the taker sees; nothing is added behind its back."""
    one, other = two_stores
    for number in range(20):
        run = a_run(f"r{number}", lease=ENDED)
        await one.save_run(run)

        async def take(id: str = run.id) -> list[str]:
            assert await other.take_run(id, "p2", LEASE, 9.0)
            return [event.path for event in await other.history(id)]

        written, seen = await asyncio.gather(one.save_events(run, [step("/a", run=run.id)]), take())
        assert seen == (["/a"] if written else [])
        assert [event.path for event in await other.history(run.id)] == seen


async def test_traces_of_others_need_no_run(store: Store) -> None:
    events = [RunEvent("trace:x", "note", 1.0, "same") for _ in range(2)]
    await store.save_trace(events)
    await store.save_trace(events[:1])
    assert await store.history("trace:x") == events


def a_secret(key: str = "k1", **fields: Any) -> Secret:
    values: dict[str, Any] = {"sealed": b"\x00one", "source": "mail", "principal": "ann"}
    return Secret("token", key, **{**values, **fields})


class TestSecrets:
    async def test_a_secret_comes_back_and_is_replaced_by_kind_and_key(self, store: Store) -> None:
        secret = a_secret(expires_at=9.0, updated_at=2.0, used=True)
        await store.save_secret(secret)
        await store.save_secret(dataclasses.replace(secret, kind="client", sealed=b"other"))
        assert await store.secret("token", "k1") == secret
        newer = a_secret(sealed=b"two")
        await store.save_secret(newer)
        assert await store.secret("token", "k1") == newer
        assert (await store.secret("client", "k1")).sealed == b"other"  # type: ignore[union-attr]
        assert await store.secret("pending", "k1") is None

    async def test_secrets_are_listed_by_kind_and_source(self, store: Store) -> None:
        await store.save_secret(a_secret("k1", principal="bob"))
        await store.save_secret(a_secret("k2", principal="ann"))
        await store.save_secret(a_secret("k3", source="disk"))
        assert [secret.key for secret in await store.secrets("token")] == ["k3", "k2", "k1"]
        assert [secret.key for secret in await store.secrets("token", source="mail")] == ["k2", "k1"]
        assert await store.secrets("pending") == []

    async def test_a_swap_succeeds_only_on_what_is_there(self, store: Store) -> None:
        old, new = a_secret(), a_secret(sealed=b"two")
        assert not await store.swap_secret(old, new)
        await store.save_secret(old)
        assert not await store.swap_secret(dataclasses.replace(old, used=True), new)
        assert await store.swap_secret(old, new)
        assert not await store.swap_secret(old, a_secret(sealed=b"three"))
        assert not await store.swap_secret(old, None)
        assert await store.secret("token", "k1") == new
        assert await store.swap_secret(new, None)
        assert await store.secret("token", "k1") is None

    async def test_of_many_swaps_at_once_one_succeeds(self, two_stores: tuple[Store, Store]) -> None:
        await two_stores[0].save_secret(a_secret())
        swaps = [two_stores[n % 2].swap_secret(a_secret(), a_secret(sealed=b"new %d" % n)) for n in range(20)]
        assert sum(await asyncio.gather(*swaps)) == 1

    async def test_secrets_are_deleted_and_expired_ones_forgotten(self, store: Store) -> None:
        await store.save_secret(a_secret("old", expires_at=5.0))
        await store.save_secret(a_secret("young", expires_at=50.0))
        await store.save_secret(a_secret("lasting"))
        assert await store.forget_secrets(5.0) == 1
        assert sorted(secret.key for secret in await store.secrets("token")) == ["lasting", "young"]
        assert await store.delete_secret("token", "young")
        assert not await store.delete_secret("token", "young")


class TestLeases:
    async def test_a_lease_is_held_by_one_until_it_ends(self, store: Store) -> None:
        assert await store.acquire("refresh", "p1", LEASE)
        assert await store.acquire("refresh", "p1", LEASE)
        assert not await store.acquire("refresh", "p2", LEASE)
        assert await store.acquire("other", "p2", ENDED)
        assert await store.acquire("other", "p1", LEASE)

    async def test_one_who_wants_it_for_less_time_waits_as_well(self, store: Store) -> None:
        assert await store.acquire("refresh", "p1", ports.LEASE)
        assert not await store.acquire("refresh", "p2", 1.0)

    async def test_only_the_holder_releases(self, store: Store) -> None:
        await store.acquire("refresh", "p1", LEASE)
        await store.release("refresh", "p2")
        assert not await store.acquire("refresh", "p2", LEASE)
        await store.release("refresh", "p1")
        assert await store.acquire("refresh", "p2", LEASE)

    async def test_of_many_that_want_it_at_once_one_gets_it(self, two_stores: tuple[Store, Store]) -> None:
        wanted = [two_stores[n % 2].acquire("refresh", f"p{n}", LEASE) for n in range(20)]
        assert sum(await asyncio.gather(*wanted)) == 1

    @pytest.mark.parametrize("jump", [-60.0, 60.0, 1e9])
    async def test_a_jump_of_the_time_of_day_neither_ends_nor_prolongs_a_lease(
        self, store: Store, monkeypatch: pytest.MonkeyPatch, jump: float
    ) -> None:
        await store.acquire("refresh", "p1", LEASE)
        await store.save_run(a_run())
        await store.save_run(a_run("dead", lease=ENDED))
        now = time.time
        monkeypatch.setattr(time, "time", lambda: now() + jump)
        assert not await store.acquire("refresh", "p2", LEASE)
        assert not await store.take_run("r1", "p2", LEASE, time.time())
        assert await store.take_run("dead", "p2", LEASE, time.time())

    async def test_a_lease_from_before_the_machine_started_has_ended(self, tmp_path: Path) -> None:
        async with SqliteStore(tmp_path / "state.db", clock=lambda: 500_000.0) as before:
            await before.save_run(a_run())
            await before.acquire("refresh", "p1", LEASE)
        async with SqliteStore(tmp_path / "state.db", clock=lambda: 12.0) as after:
            assert await after.take_run("r1", "p2", LEASE, 9.0)
            assert await after.acquire("refresh", "p2", LEASE)


class TestSubmittedRuns(RunStoreContract):
    async def test_a_turn_is_taken_from_whoever_holds_the_run_until_there_is_a_later_one(
        self, store: RunStore
    ) -> None:
        queued = a_run(
            status="queued", owner=None, lease=None, queue="mail", turn=1, priority=7, not_before=9.0
        )
        assert await store.save_run(queued)
        assert await store.run("r1") == queued
        assert not await store.save_run(dataclasses.replace(queued, name="other")), "a second with this id"
        assert not await store.take_run("r1", "p2", LEASE, 5.0)
        assert not await store.take_turn("r1", 2, "p2", LEASE, 5.0)
        taken = await store.take_turn("r1", 1, "p2", LEASE, 5.0)
        assert taken is not None
        assert (taken.owner, taken.status, taken.updated_at) == ("p2", "running", 5.0)
        assert taken.lease is not None
        assert taken.lease > 0
        held = await store.run("r1")
        assert held is not None
        assert (held.status, held.owner, held.generation, held.queue) == ("running", "p2", 2, "mail")
        assert await store.take_turn("r1", 1, "p3", LEASE, 6.0), "the engine decides, not the lease"
        assert not await store.save_events(held, [step("/a")])
        taken = await store.run("r1")
        assert taken is not None
        assert await store.save_run(dataclasses.replace(taken, status="queued", turn=2, lease=None))
        assert not await store.take_turn("r1", 1, "p4", LEASE, 7.0)
        assert await store.take_turn("r1", 2, "p4", LEASE, 7.0)

    async def test_only_a_run_that_failed_or_was_cancelled_is_reopened(self, store: RunStore) -> None:
        statuses: tuple[RunStatus, ...] = ("queued", "running", "paused", "done", "failed", "cancelled")
        for status in statuses:
            assert await store.save_run(a_run(status, status=status))
        opened = [status for status in statuses if await store.reopen(status, "p2", LEASE, 5.0)]
        assert opened == ["failed", "cancelled"]
        found = await store.run("failed")
        assert found is not None
        assert (found.status, found.owner, found.generation) == ("running", "p2", 2)

    async def test_runs_that_nobody_has_are_found(self, store: RunStore) -> None:
        for id, fields in {
            "dead": {"status": "running", "lease": ENDED, "queue": "q", "updated_at": 1.0},
            "alive": {"status": "running", "queue": "q", "lease": ports.LEASE},
            "foreground": {"status": "running", "lease": ENDED},
            "waits": {"status": "queued", "queue": "q", "updated_at": 2.0},
            "new": {"status": "queued", "queue": "q", "updated_at": 60.0},
            "later": {"status": "queued", "queue": "q", "updated_at": 2.0, "not_before": 60.0},
            "other": {"status": "queued", "queue": "other", "updated_at": 3.0},
            "paused": {"status": "paused", "queue": "q"},
        }.items():
            assert await store.save_run(a_run(id, turn=1, **fields))
        assert await store.save_run(a_run("held", status="queued", queue="q", updated_at=2.0, not_before=8.0))
        assert [run.id for run in await store.adrift(50.0, ports.LEASE, 10)] == ["dead", "waits", "other"]
        assert [run.id for run in await store.adrift(50.0, ports.LEASE, 1)] == ["dead"]
        assert [await store.queued(queue) for queue in ("q", "other", "none")] == [4, 1, 0]
        assert await store.queued("q", due_by=10.0) == 3
        assert [await store.queued("q", principal=id) for id in ("ann", "ben")] == [4, 0]

    async def test_a_principals_runs_are_held_back_until_others_of_its_have_ended(
        self, store: RunStore
    ) -> None:
        ben = Principal("ben")
        for id, fields in {
            "later": {"priority": 200},
            "first": {},
            "second": {},
            "tomorrow": {"not_before": 99.0, "priority": 1},
            "again": {"turn": -2, "priority": 300},
            "of_ben": {"principal": ben},
            "elsewhere": {"queue": "other"},
        }.items():
            values = {"status": "queued", "queue": "q", "lease": None, "owner": None, **fields}
            assert await store.save_run(a_run(id, **values))
        assert sorted(await store.held_back(50.0)) == [("other", "ann"), ("q", "ann"), ("q", "ben")]
        assert sorted(await store.admit("q", "ann", 2, 50.0)) == ["first", "second"]
        assert await store.admit("q", "ann", 2, 50.0) == []
        assert await store.take_turn("first", 1, "p2", LEASE, 51.0)
        assert await store.admit("q", "ann", 2, 52.0) == [], "one executes, and one is handed over"
        held = await store.run("first")
        assert held is not None
        assert await store.save_run(dataclasses.replace(held, status="done", lease=None))
        assert await store.admit("q", "ann", 2, 53.0) == ["later"]
        assert sorted(await store.admit("q", "ann", 10, 54.0)) == ["again"]
        again = await store.run("again")
        assert again is not None
        assert again.turn == 3, "it had two before"
        assert sorted(await store.held_back(60.0)) == [("other", "ann"), ("q", "ben")]
        assert sorted(await store.held_back(100.0)) == [("other", "ann"), ("q", "ann"), ("q", "ben")]

    async def test_parts_of_batches_are_listed_by_the_beginning_of_their_ids_and_with_no_others(
        self, store: RunStore
    ) -> None:
        for id, fields in {
            "aa02": {"kind": "part", "status": "done"},
            "aa01": {"kind": "part", "status": "queued", "queue": "q"},
            "ab01": {"kind": "part"},
            "aa03": {},
        }.items():
            assert await store.save_run(a_run(id, **fields))
        parts = await store.parts("aa")
        assert list(parts.items()) == [("aa01", "queued"), ("aa02", "done")]
        assert [run.id for run in await store.runs(limit=-1)] == ["aa03"]
        assert len(await store.runs(limit=-1, kind="part")) == 3
        assert [await store.queued("q", parts=parts) for parts in (True, False)] == [1, 0]
