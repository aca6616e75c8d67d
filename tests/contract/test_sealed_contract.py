"""What every store must do to keep the details of calls from those who read its files."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from contract.openers import OPENERS, SHARED
from contract.test_run_store_contract import a_run
from spindle.auth.details import DetailSealer
from spindle.auth.keys import new_key
from spindle.domain.call import CallRecord, Result
from spindle.errors import ConfigurationError, StoreError
from spindle.ports.store import Store

WORDS = "words that nobody else may read"
ERROR = {"category": "tool", "message": WORDS}
RECORD = CallRecord(
    "k1", "a.b", "a", "ann", {"text": WORDS}, "tool", 1.0, 0.1, 1, ERROR, None, {"content": [WORDS]}
)
RESULT = Result(structured={"text": WORDS}, has_structured=True)


class Pair:
    """One store twice: with a key and without."""

    def __init__(self, sealed: Store, raw: Store) -> None:
        self.sealed, self.raw = sealed, raw

    async def stored(self, table: str) -> str:
        columns = {"calls": "arguments, error, result", "cache": "result", "runs": "error"}[table]
        rows: Any = await self.raw._rows(f"SELECT {columns} FROM {{schema}}.{table}")  # type: ignore[attr-defined]
        return repr([bytes(cell) for row in rows for cell in row if cell is not None])


@pytest.fixture
def keys() -> list[str]:
    return [new_key()]


@pytest.fixture(params=SHARED)
async def pair(request: pytest.FixtureRequest, keys: list[str]) -> AsyncIterator[Pair]:
    found = Pair(await OPENERS[request.param](request), await OPENERS[request.param](request))
    found.sealed.seal_with(DetailSealer(lambda: keys))
    yield found
    await found.sealed.close()
    await found.raw.close()


async def test_details_come_back_and_cannot_be_read_in_the_store(pair: Pair) -> None:
    run = a_run(error=ERROR, lease=None)
    await pair.sealed.save_call(RECORD)
    await pair.sealed.cache("k", RESULT, expires_at=20.0, now=1.0)
    await pair.sealed.save_run(run)
    assert await pair.sealed.call("k1") == RECORD
    assert await pair.sealed.calls(limit=9) == [RECORD]
    assert await pair.sealed.cached("k", now=2.0) == dataclasses.replace(RESULT, cached=True)
    assert (await pair.sealed.run("r1"), await pair.sealed.runs(limit=9)) == (run, [run])
    for table in ("calls", "cache", "runs"):
        stored = await pair.stored(table)
        assert len(stored) > 50
        assert "words" not in stored


async def test_what_was_kept_in_clear_before_stays_readable(pair: Pair) -> None:
    await pair.raw.save_call(RECORD)
    await pair.raw.cache("k", RESULT, expires_at=20.0, now=1.0)
    await pair.raw.save_run(a_run(error=ERROR, lease=None))
    assert await pair.sealed.call("k1") == RECORD
    assert await pair.sealed.cached("k", now=2.0) == dataclasses.replace(RESULT, cached=True)
    assert await pair.sealed.run("r1") == a_run(error=ERROR, lease=None)


async def test_details_can_be_kept_in_clear_or_not_at_all(pair: Pair) -> None:
    pair.sealed.keep_details(history="clear", cache="clear")
    await pair.sealed.save_call(RECORD)
    await pair.sealed.cache("k", RESULT, expires_at=20.0, now=1.0)
    assert "words" in await pair.stored("calls")
    assert "words" in await pair.stored("cache")
    pair.sealed.keep_details(history="off", cache="off")
    await pair.sealed.save_call(dataclasses.replace(RECORD, key="k2"))
    await pair.sealed.cache("k2", RESULT, expires_at=20.0, now=1.0)
    bare = dataclasses.replace(RECORD, key="k2", arguments={}, error=None, result=None)
    assert await pair.sealed.call("k2") == bare
    assert await pair.sealed.cached("k2", now=2.0) is None
    assert await pair.sealed.call("k1") == RECORD


async def test_details_under_a_lost_key_do_not_cost_the_list(pair: Pair, keys: list[str]) -> None:
    await pair.sealed.save_call(RECORD)
    await pair.sealed.save_run(a_run(error=ERROR, lease=None))
    await pair.sealed.cache("k", RESULT, expires_at=20.0, now=1.0)
    pair.raw.seal_with(DetailSealer(lambda: [new_key()]))
    [found] = await pair.raw.calls(limit=9)
    assert (found.key, found.tool, found.outcome, found.arguments) == ("k1", "a.b", "tool", {})
    assert "another key" in (found.error or {})["message"]
    run = await pair.raw.run("r1")
    assert run is not None
    assert "another key" in (run.error or {})["message"]
    with pytest.raises(StoreError, match="another key"):
        await pair.raw.cached("k", now=2.0)


async def test_a_new_key_opens_what_an_old_one_sealed(pair: Pair, keys: list[str]) -> None:
    await pair.sealed.save_call(RECORD)
    keys.insert(0, new_key())
    pair.raw.seal_with(DetailSealer(lambda: keys))
    assert await pair.raw.call("k1") == RECORD
    await pair.raw.save_call(dataclasses.replace(RECORD, key="k2"))
    # Read again by the process that knew only the old key.
    assert await pair.sealed.call("k2") == dataclasses.replace(RECORD, key="k2")


async def test_a_row_moved_to_another_call_cannot_be_read_there(pair: Pair) -> None:
    await pair.sealed.save_call(RECORD)
    await pair.raw._change("UPDATE {schema}.calls SET key = 'k9'")  # type: ignore[attr-defined]
    [found] = await pair.sealed.calls(limit=9)
    assert found.arguments == {}
    assert "has been changed" in (found.error or {})["message"]


async def test_without_a_key_a_call_is_recorded_without_its_details(pair: Pair) -> None:
    def no_keys() -> Sequence[str]:
        raise ConfigurationError("others can read the key file")

    pair.sealed.seal_with(DetailSealer(no_keys))
    await pair.sealed.save_call(RECORD)
    found = await pair.raw.call("k1")
    assert found is not None
    assert (found.tool, found.outcome, found.arguments, found.result) == ("a.b", "tool", {}, None)
    assert (found.error or {})["message"] == "the details were not kept: others can read the key file"
    assert "words" not in await pair.stored("calls")
    with pytest.raises(StoreError, match="others can read"):
        await pair.sealed.cache("k", RESULT, expires_at=20.0, now=1.0)


async def test_nothing_of_the_words_is_in_a_file_of_sqlite(tmp_path: Path, keys: list[str]) -> None:
    from spindle.stores.sqlite import SqliteStore

    async with SqliteStore(tmp_path / "state.db") as store:
        store.seal_with(DetailSealer(lambda: keys))
        await store.save_call(RECORD)
        await store.cache("k", RESULT, expires_at=20.0, now=1.0)
    assert not any(WORDS.encode() in file.read_bytes() for file in tmp_path.iterdir())


async def test_a_store_without_a_key_lists_what_is_sealed(pair: Pair) -> None:
    """As completion does, which must not ask for a key."""
    await pair.sealed.save_call(RECORD)
    await pair.sealed.save_run(a_run(error=ERROR, lease=None))
    [found] = await pair.raw.calls(limit=9)
    assert (found.key, found.arguments) == ("k1", {})
    assert "without a key" in (found.error or {})["message"]
    [run] = await pair.raw.runs(limit=9)
    assert "without a key" in (run.error or {})["message"]
