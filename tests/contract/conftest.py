"""Each store that must fulfil the contract, by itself and as two at once; a broker for sources."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from contract.openers import OPENERS, SHARED
from servers import brokers
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


@pytest.fixture(scope="session")
def nats_with_accounts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[brokers.Broker]:
    """A NATS server in which each user has an account, and sees nothing of the others'."""
    folder = tmp_path_factory.mktemp("nats")
    users = ("ann", "bob", "local")
    accounts = [f"{who} {{ users: [{{ user: {who}, password: {who}-token }}] }}" for who in users]
    (folder / "nats.conf").write_text(f"no_auth_user: local\naccounts {{ {', '.join(accounts)} }}\n")
    with brokers.nats(folder, "-c", str(folder / "nats.conf")) as broker:
        yield broker
