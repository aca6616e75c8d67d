"""Rates that hold over all processes that share a database."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import spindle
from servers.rest import RestWorkspace
from spindle.calls.stored_rates import PIECES, StoredRate
from spindle.domain.serve import ServeConfig
from spindle.domain.source import RateLimit
from spindle.errors import BusyError, StoreError
from spindle.ports.serving_store import QuotaRefusal, QuotaUse
from spindle.ports.store import Store
from spindle.serving.access import ServingAccess
from spindle.settings import Settings

pytest_plugins = ["contract.conftest"]


def limit(calls: float) -> RateLimit:
    return RateLimit(calls=calls, seconds=3600)


async def test_five_are_five_over_three_processes(two_stores: tuple[Store, Store]) -> None:
    now = [1_000_000.0]
    one, other = two_stores
    rates = [StoredRate("r", limit(5), store, lambda: now[0]) for store in (one, other, one)]
    waits = [await rates[number % 3].take("ann") for number in range(9)]
    assert waits[:5] == [None] * 5
    assert all(wait == pytest.approx(720) for wait in waits[5:])
    assert await rates[0].take("bob") is None
    now[0] += 721
    assert [await rate.take("ann") for rate in rates].count(None) == 1


async def test_a_call_that_was_given_up_is_there_for_the_next(store: Store) -> None:
    rate = StoredRate("r", limit(1), store, lambda: 1_000_000.0)
    assert await rate.take() is None
    rate.give_back()
    assert await rate.take() is None
    assert await rate.take() is not None


class Counting:
    """A store that has everything, and counts who asks."""

    is_server = True

    def __init__(self) -> None:
        self.asked = 0

    async def take_quota(self, uses: Sequence[QuotaUse], *_: Any) -> QuotaRefusal | None:
        self.asked += 1
        return None


async def test_a_large_rate_asks_the_store_now_and_then() -> None:
    store: Any = Counting()
    rate = StoredRate("r", limit(1000), store, lambda: 1_000_000.0)
    assert {await rate.take() for _ in range(1000)} == {None}
    assert store.asked == PIECES


class Away:
    """A store that cannot be asked."""

    async def take_quota(self, *_: Any) -> QuotaRefusal | None:
        raise StoreError("away")


async def test_while_the_store_is_away_each_process_counts_for_itself() -> None:
    access = ServingAccess.of(ServeConfig(rate_limit=limit(2)), {})
    access.count_in(Away())  # type: ignore[arg-type]
    rules = access._rules  # pyright: ignore[reportPrivateUsage]
    assert [(await rules.taken("ann")) is None for _ in range(3)] == [True, True, False]


async def test_the_rate_of_a_source_holds_over_processes(tmp_path: Path, postgres_url: str) -> None:
    sources = {"t": {"kind": "python", "module": "t", "rate_limit": "2/hour", "timeout": 5}}
    (tmp_path / "t.py").write_text(
        "from spindle import tool\n\n@tool\ndef say() -> str:\n    return 'hello'\n"
    )
    settings = Settings(tmp_path, {"sources": sources, "store": postgres_url})
    async with spindle.open(settings=settings) as one, spindle.open(settings=settings) as other:
        await one.sync()
        for app in (one, other):
            assert (await app.call("t.say")).text == "hello"
        for app in (one, other):
            with pytest.raises(BusyError, match="takes 2 calls in 3600 s"):
                await app.call("t.say")


def test_the_rate_of_a_client_holds_over_servers(rest: RestWorkspace, postgres_url: str) -> None:
    rest.settings(f'store = "{postgres_url}"\n[serve]\nrate_limit = "5/hour"')
    token = rest.spindle("token", "create", "ann").stdout.strip()
    with rest.serve(token=token) as one, rest.serve(token=token) as other:
        answers = [served.call("say", text="x") for _ in range(5) for served in (one, other)]
    assert sorted(answer.status_code for answer in answers) == [200] * 5 + [429] * 5
    assert all(int(answer.headers["retry-after"]) > 600 for answer in answers if answer.status_code == 429)
