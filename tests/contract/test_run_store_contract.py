"""What every store must do for runs, secrets and leases."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from typing import Any

import pytest
from cryptography.fernet import Fernet

from contract.openers import OPENERS
from spindle.adapters.state_store import RunsIn, StateStoreOf
from spindle.auth.encryption import Sealer
from spindle.domain.identity import Principal, Secret
from spindle.domain.run import Pause, Run, RunEvent
from spindle.errors import NotFoundError
from spindle.ports.store import RunStore, Store

ANN = Principal("ann", frozenset({"staff", "admins"}))


def a_run(id: str = "r1", **fields: Any) -> Run:
    values: dict[str, Any] = {"principal": ANN, "created_at": 1.0, "updated_at": 1.0, "owner": "p1",
                              "lease_until": 10.0}  # fmt: skip
    return Run("report", id=id, **{**values, **fields})


def a_pause(token: str = "t1", run: str = "r1", **fields: Any) -> Pause:
    values: dict[str, Any] = {"message": "waits", "principal": ANN, "created_at": 2.0, "source": "mail",
                              "tool": "mail.send", "sealed": b"\x00sealed\xff"}  # fmt: skip
    return Pause(token, run, f"/x?{token}", "consent", **{**values, **fields})


async def paused(store: RunStore, *pauses: Pause, run: str = "r1") -> None:
    resting = a_run(run, status="paused", owner=None, lease_until=None)
    await store.save_run(resting, pauses=pauses or (a_pause(run=run),))


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
        await store.save_run(run)
        assert await store.run("r1") == run
        assert await store.run("nothing") is None

    async def test_saving_again_changes_how_it_stands(self, store: RunStore) -> None:
        await store.save_run(a_run())
        ended = a_run(status="done", updated_at=5.0, owner=None, lease_until=None)
        await store.save_run(ended)
        assert await store.run("r1") == ended
        assert await store.runs(limit=9) == [ended]

    async def test_a_run_is_found_by_a_beginning_that_only_it_has(self, store: RunStore) -> None:
        await store.save_run(a_run("abc1"))
        await store.save_run(a_run("abd2"))
        assert (await store.run("abc")) == a_run("abc1")
        with pytest.raises(NotFoundError, match="several runs"):
            await store.run("ab")

    async def test_runs_are_listed_newest_first_and_filtered(self, store: RunStore) -> None:
        for number in range(3):
            await store.save_run(a_run(f"r{number}", status="paused" if number else "done"))
        await store.save_run(a_run("other", principal=Principal("bob")))
        assert [run.id for run in await store.runs(limit=2)] == ["other", "r2"]
        assert [run.id for run in await store.runs(limit=9, status="paused")] == ["r2", "r1"]
        assert [run.id for run in await store.runs(limit=9, principal="bob")] == ["other"]

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
        await store.save_events(events[2:4])
        await store.save_events(events[4:])
        await store.save_events([])
        await store.save_events([RunEvent("r2", "started", 1.0)])
        assert await store.history("r1") == events
        assert await store.history("nothing") == []

    async def test_two_objects_see_each_others_runs(self, two_stores: tuple[Store, Store]) -> None:
        one, other = two_stores
        await paused(one)
        assert (await other.pause("t1")) == a_pause()
        assert await other.claim("t1", b"yes", "p2", 30.0, 20.0) == "claimed"
        assert (await one.run("r1")).owner == "p2"  # type: ignore[union-attr]


async def test_a_run_its_events_and_its_pauses_are_saved_together_or_not_at_all(store: Store) -> None:
    event = RunEvent("r1", "step", 1.0)
    with pytest.raises(Exception):  # noqa: B017 - each database has its own word for a clash of ids
        await store.save_run(a_run(), [event, event], [a_pause()])
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
        await store.claim("t1", b"yes", "p1", 30.0, 20.0)
        await store.save_run(a_run(status="paused"), pauses=[a_pause(message="other")])
        found = await store.pause("t1")
        assert found is not None
        assert (found.message, found.state, found.answer) == ("waits", "answered", b"yes")

    async def test_pauses_are_listed_oldest_first_and_filtered(self, store: RunStore) -> None:
        bobs = a_pause("t3", "r2", principal=Principal("bob"), source="disk")
        await paused(store, a_pause("t1"), a_pause("t2"))
        await paused(store, bobs, run="r2")
        await store.claim("t1", None, "p1", 30.0, 20.0)
        assert [pause.token for pause in await store.pauses()] == ["t2", "t3"]
        assert [pause.token for pause in await store.pauses(waiting=False)] == ["t1", "t2", "t3"]
        assert [pause.token for pause in await store.pauses(run="r1")] == ["t2"]
        assert await store.pauses(principal="bob") == [bobs]
        assert await store.pauses(source="disk") == [bobs]

    async def test_the_first_answer_claims_the_run_and_the_second_is_refused(self, store: RunStore) -> None:
        await paused(store)
        assert await store.claim("t1", b"yes", "p2", 50.0, 20.0) == "claimed"
        run = await store.run("r1")
        assert run is not None
        assert (run.status, run.owner, run.lease_until) == ("running", "p2", 50.0)
        assert await store.claim("t1", b"no", "p3", 60.0, 21.0) == "used"
        assert (await store.pause("t1")).answer == b"yes"  # type: ignore[union-attr]

    async def test_an_answer_to_a_run_that_executes_is_noted(self, store: RunStore) -> None:
        await paused(store, a_pause("t1"), a_pause("t2"))
        await store.claim("t1", None, "p1", 50.0, 20.0)
        assert await store.claim("t2", b"too", "p2", 60.0, 21.0) == "noted"
        run = await store.run("r1")
        assert run is not None
        assert (run.owner, run.lease_until) == ("p1", 50.0)

    async def test_a_cancelled_run_can_be_taken_up_again_and_one_that_is_done_cannot(
        self, store: RunStore
    ) -> None:
        for status, free in (("cancelled", True), ("paused", True), ("done", False), ("failed", False)):
            await store.save_run(a_run(status, status=status))  # type: ignore[arg-type]
            assert await store.take_run(status, "p2", 50.0, 20.0) is free
            assert not await store.take_run(status, "p3", 60.0, 21.0)

    async def test_an_answer_takes_a_run_over_whose_owner_died(self, store: RunStore) -> None:
        await paused(store, a_pause("t1"), a_pause("t2"))
        await store.claim("t1", None, "p1", 50.0, 20.0)
        assert await store.claim("t2", b"too", "p2", 90.0, 50.0) == "claimed"

    async def test_what_is_unknown_or_too_late_is_said(self, store: RunStore) -> None:
        await paused(store, a_pause(expires_at=30.0))
        assert await store.claim("nothing", None, "p1", 50.0, 20.0) == "unknown"
        assert await store.claim("t1", None, "p1", 50.0, 30.0) == "expired"
        assert (await store.pause("t1")).state == "waiting"  # type: ignore[union-attr]
        assert (await store.run("r1")).status == "paused"  # type: ignore[union-attr]

    async def test_of_many_that_claim_at_once_one_succeeds(self, two_stores: tuple[Store, Store]) -> None:
        await paused(two_stores[0])
        claims = await asyncio.gather(
            *(two_stores[n % 2].claim("t1", b"%d" % n, f"p{n}", 50.0, 20.0) for n in range(50))
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
        assert not await store.take_run("r1", "p2", 50.0, 9.0)
        assert await store.take_run("r1", "p2", 50.0, 10.0)
        assert (await store.run("r1")).owner == "p2"  # type: ignore[union-attr]
        assert not await store.take_run("nothing", "p2", 50.0, 10.0)

    async def test_a_paused_run_is_taken_and_an_ended_one_is_not(self, store: RunStore) -> None:
        await paused(store)
        assert await store.take_run("r1", "p2", 50.0, 1.0)
        await store.save_run(a_run(status="done", owner=None, lease_until=None))
        assert not await store.take_run("r1", "p3", 90.0, 80.0)

    async def test_renewing_keeps_ones_own_running_runs(self, store: RunStore) -> None:
        await store.save_run(a_run("mine"))
        await store.save_run(a_run("theirs", owner="p2"))
        await store.save_run(a_run("ended", status="done"))
        await store.renew_leases("p1", 70.0)
        found = {run.id: run.lease_until for run in await store.runs(limit=9)}
        assert found == {"mine": 70.0, "theirs": 10.0, "ended": 10.0}


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
        assert await store.secret("token", "k1") == new

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
        assert await store.acquire("refresh", "p1", 10.0, 1.0)
        assert await store.acquire("refresh", "p1", 20.0, 2.0)
        assert not await store.acquire("refresh", "p2", 30.0, 19.0)
        assert await store.acquire("other", "p2", 30.0, 3.0)
        assert await store.acquire("refresh", "p2", 40.0, 20.0)

    async def test_only_the_holder_releases(self, store: Store) -> None:
        await store.acquire("refresh", "p1", 10.0, 1.0)
        await store.release("refresh", "p2")
        assert not await store.acquire("refresh", "p2", 30.0, 2.0)
        await store.release("refresh", "p1")
        assert await store.acquire("refresh", "p2", 30.0, 2.0)

    async def test_of_many_that_want_it_at_once_one_gets_it(self, two_stores: tuple[Store, Store]) -> None:
        wanted = [two_stores[n % 2].acquire("refresh", f"p{n}", 10.0, 1.0) for n in range(20)]
        assert sum(await asyncio.gather(*wanted)) == 1
