"""The version of the stored catalog is asked for once by all who want to know it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from servers.running import PATIENCE
from spindle.catalog.version import StoredVersion
from spindle.errors import StoreError
from spindle.ports.store import ToolStore


class Asked:
    """Answers when it may."""

    def __init__(self) -> None:
        self.times = 0
        self.number = 1
        self.may_answer = asyncio.Event()
        self.fails = False

    def version_at_once(self) -> int | None:
        return None

    async def catalog_version(self) -> int:
        self.times += 1
        await self.may_answer.wait()
        if self.fails:
            raise StoreError("away")
        return self.number


def version_of(store: Any) -> StoredVersion:
    version = StoredVersion(cast("ToolStore", store))
    version.fresh = 3600.0
    return version


async def asked(store: Asked, times: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while store.times < times:
            await asyncio.sleep(0)


async def test_those_who_ask_at_the_same_time_share_an_answer() -> None:
    store = Asked()
    version = version_of(store)
    asking = [asyncio.create_task(version.number()) for _ in range(20)]
    await asked(store, 1)
    assert not version.is_still(-1), "nobody knows yet"
    asking[0].cancel()
    store.may_answer.set()
    assert await asyncio.gather(*asking[1:]) == [1] * 19
    assert await version.number() == 1
    assert version.is_still(1)
    assert store.times == 1


async def test_an_answer_from_before_a_change_is_not_kept() -> None:
    store = Asked()
    version = version_of(store)
    early = asyncio.create_task(version.number())
    await asked(store, 1)
    version.changed()
    late = asyncio.create_task(version.number())
    await asked(store, 2)
    store.number = 2
    store.may_answer.set()
    assert await asyncio.gather(early, late) == [2, 2]
    assert version.is_still(2)


async def test_after_an_error_it_is_asked_again() -> None:
    store = Asked()
    version = version_of(store)
    store.fails = True
    store.may_answer.set()
    with pytest.raises(StoreError):
        await version.number()
    store.fails = False
    assert await version.number() == 1


async def test_what_can_be_read_without_waiting_is_not_asked_for() -> None:
    class AtOnce(Asked):
        def version_at_once(self) -> int | None:
            return self.number

    store = AtOnce()
    version = version_of(store)
    assert await version.number() == 1
    assert version.is_still(1)
    store.number = 2
    assert version.is_still(1), "for a moment it is taken to be the same"
    version.changed()
    assert not version.is_still(1)
    assert version.is_still(2)
    version.fresh = -1.0
    store.number = 3
    assert not version.is_still(2)
    assert await version.number() == 3
    assert store.times == 0
