"""Quotas by user, group and tool, over several servers of a workspace."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from servers.rest import RestWorkspace
from spindle.domain.identity import Principal
from spindle.domain.quota import QuotaRule
from spindle.errors import RateLimitedError
from spindle.ports.store import Store
from spindle.serving.quota_gate import LEASE, QuotaGate

pytest_plugins = ["contract.conftest"]

ANN, BOB = Principal("ann", frozenset({"staff"})), Principal("bob")


def gate(store: Store, now: list[float] | None = None, **rules: Any) -> QuotaGate:
    clock = now or [1_000_000.0]
    made = QuotaGate(store, lambda: clock[0])
    made.rules = {name: QuotaRule.model_validate(rule) for name, rule in rules.items()}
    return made


async def done() -> str:
    return "x" * 100


async def refused(quotas: QuotaGate, who: Principal, tool: str = "fs.read") -> RateLimitedError:
    with pytest.raises(RateLimitedError) as error:
        await quotas.within(who, tool, {}, done)
    return error.value


async def test_calls_are_counted_for_each_user_over_all_servers(two_stores: tuple[Store, Store]) -> None:
    now = [1_000_000.0]
    one, other = (gate(store, now, few={"calls": "4/minute"}) for store in two_stores)
    for quotas in (one, other, one, other):
        await quotas.within(ANN, "fs.read", {}, done)
    error = await refused(one, ANN)
    assert error.retry_after == pytest.approx(15, abs=0.1)
    assert "'few' of calls" in error.message
    await other.within(BOB, "fs.read", {}, done)
    now[0] += 15.1
    await other.within(ANN, "fs.read", {}, done)
    await refused(other, ANN)


async def test_a_shared_quota_and_one_of_a_group_and_of_tools(store: Store) -> None:
    quotas = gate(
        store,
        staff={"groups": ["staff"], "calls": "1/hour", "tools": ["fs.*"]},
        all={"calls": "3/hour", "shared": True},
    )
    await quotas.within(ANN, "fs.read", {}, done)
    assert "'staff'" in (await refused(quotas, ANN)).message
    await quotas.within(ANN, "web.get", {}, done)
    await quotas.within(BOB, "fs.read", {}, done)
    assert "'all'" in (await refused(quotas, BOB)).message


async def test_what_one_quota_refuses_is_not_taken_from_another(store: Store) -> None:
    quotas = gate(store, a={"calls": "5/hour"}, z={"calls": "1/hour", "tools": ["fs.*"]})
    await quotas.within(ANN, "fs.read", {}, done)
    for _ in range(10):
        await refused(quotas, ANN)
    for _ in range(4):
        await quotas.within(ANN, "web.get", {}, done)
    assert "'a'" in (await refused(quotas, ANN, "web.get")).message


async def test_cost_is_counted_by_tool_and_bytes_by_what_came_and_went(store: Store) -> None:
    now = [1_000_000.0]
    quotas = gate(store, now, dear={"cost": "10/hour"}, wide={"bytes": "300/hour", "tools": ["web.*"]})
    quotas.costs = {"fs.read": 5.0, "web.*": 0.5}
    await quotas.within(ANN, "fs.read", {}, done)
    await quotas.within(ANN, "fs.read", {}, done)
    assert "units of cost" in (await refused(quotas, ANN)).message
    for _ in range(3):
        await quotas.within(BOB, "web.get", {}, done)
    assert "bytes" in (await refused(quotas, BOB, "web.get")).message


async def test_calls_at_once_are_counted_over_all_servers_and_freed(two_stores: tuple[Store, Store]) -> None:
    now = [1_000_000.0]
    one, other = (gate(store, now, two={"concurrency": 2}) for store in two_stores)
    begun, go = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        begun.set()
        await go.wait()

    tasks = [asyncio.create_task(quotas.within(ANN, "fs.read", {}, slow)) for quotas in (one, other)]
    await begun.wait()
    while len(one._held) + len(other._held) < 2:
        await asyncio.sleep(0)
    assert (await refused(other, ANN)).retry_after == 1.0
    await one.within(BOB, "fs.read", {}, done)
    go.set()
    await asyncio.gather(*tasks)
    await other.within(ANN, "fs.read", {}, done)


async def test_places_of_a_server_that_died_are_free_after_a_while(store: Store) -> None:
    now = [1_000_000.0]
    quotas = gate(store, now, one={"concurrency": 1})
    await store.take_quota([], [_hold("one\0concurrency\0ann")], "of a dead process", LEASE, now[0])
    await refused(quotas, ANN)
    now[0] += LEASE + 1
    await quotas.within(ANN, "fs.read", {}, done)


def _hold(key: str) -> Any:
    from spindle.ports.serving_store import QuotaHold

    return QuotaHold(key, 1)


def test_over_http_a_used_up_quota_is_a_429_that_says_when(rest: RestWorkspace) -> None:
    token = rest.spindle("token", "create", "ci").stdout.strip()
    rest.settings('[serve.quotas.rules.few]\ncalls = "2/hour"\ntools = ["say"]')
    with rest.serve(token=token) as served:
        assert [served.call("say", text="x").status_code for _ in range(3)] == [200, 200, 429]
        answer = served.call("say", text="x")
        assert 1700 <= int(answer.headers["retry-after"]) <= 1800
        assert "the quota 'few' of calls is used up" in answer.json()["message"]
        assert served.call("hello").status_code == 200
    with rest.serve(token=token) as served:  # also after a restart
        assert served.call("say", text="x").status_code == 429
