"""Each store that must fulfil the contract, by itself and as two objects at once."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from contract.openers import OPENERS, SHARED
from spindle.ports.store import Store


@pytest.fixture(params=OPENERS)
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    opened = await OPENERS[request.param](request)
    yield opened
    await opened.close()


@pytest.fixture(params=SHARED)
async def two_stores(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Store, Store]]:
    one, other = await OPENERS[request.param](request), await OPENERS[request.param](request)
    yield one, other
    await one.close()
    await other.close()
