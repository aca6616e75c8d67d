"""What the settings no longer want to be kept goes, and nothing that anybody still needs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet

from spindle.auth.encryption import Sealer
from spindle.domain.call import CallRecord, Result
from spindle.domain.identity import LOCAL, Secret
from spindle.domain.retention import RetentionConfig
from spindle.domain.run import Pause, Run, RunEvent
from spindle.stores.files import FolderFileStore
from spindle.stores.pruning import ABANDONED, GRACE, Pruned, Pruner
from spindle.stores.sqlite import SqliteStore

NOW = 1_000_000_000.0
DAY = 86400.0


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    async with SqliteStore(tmp_path / "state" / "state.db") as opened:
        yield opened


@pytest.fixture
def files(tmp_path: Path) -> FolderFileStore:
    return FolderFileStore(tmp_path / "files")


@pytest.fixture
def sealer() -> Sealer:
    key = Fernet.generate_key().decode()
    return Sealer(lambda: [key])


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def pruner(store: SqliteStore, files: FolderFileStore, sealer: Sealer, notes: list[str]) -> Pruner:
    return Pruner(store, store, files, sealer, notes.append, lambda: NOW)


def limits(**tables: Any) -> RetentionConfig:
    nothing = {"age": "unlimited", "count": "unlimited", "size": "unlimited"}
    cache = {"count": "unlimited", "size": "unlimited"}
    return RetentionConfig.model_validate(
        {"calls": nothing, "runs": nothing, "events": nothing, "files": nothing, "cache": cache} | tables
    )


def a_record(number: int, at: float = NOW, size: int = 1) -> CallRecord:
    return CallRecord(f"k{number}", "a.b", "a", "ann", {"text": "x" * size}, "ok", at, 0.1, 1)


async def kept_keys(store: SqliteStore) -> list[str]:
    return [record.key for record in await store.calls(limit=-1)]


class TestRecords:
    async def test_those_over_the_age_go(self, store: SqliteStore, pruner: Pruner) -> None:
        for number, age in enumerate((9, 1, 8, 0)):
            await store.save_call(a_record(number, NOW - age * DAY))
        done = await pruner.prune(limits(calls={"age": "7d"}))
        assert await kept_keys(store) == ["k3", "k1"]
        assert (done[0].kind, done[0].count) == ("calls", 2)

    async def test_those_over_the_count_or_the_bytes_go_the_oldest_first(
        self, store: SqliteStore, pruner: Pruner
    ) -> None:
        for number in range(10):
            await store.save_call(a_record(number, size=10_000))
        await pruner.prune(limits(calls={"count": 5}))
        assert await kept_keys(store) == ["k9", "k8", "k7", "k6", "k5"]
        done = await pruner.prune(limits(calls={"size": "25kB"}))
        assert await kept_keys(store) == ["k9", "k8"]
        assert 30_000 < done[0].size < 33_000

    async def test_a_look_removes_nothing_and_says_the_same(self, store: SqliteStore, pruner: Pruner) -> None:
        for number in range(2500):
            await store.save_call(a_record(number))
        await store.cache("k", Result(structured=1), expires_at=NOW - 1, now=1.0)
        heard: list[Pruned] = []
        wanted = limits(calls={"count": 3})
        seen = await pruner.prune(wanted, dry_run=True, progress=heard.append)
        assert len(await kept_keys(store)) == 2500
        assert [done.count for done in seen] == [2497, 0, 0, 0, 1, 0]
        assert len(heard) > 5
        assert await pruner.prune(wanted) == seen
        assert len(await kept_keys(store)) == 3
        assert await store.cached("k", now=1.0) is None

    async def test_secrets_and_leases_that_have_ended_go_too(
        self, store: SqliteStore, pruner: Pruner
    ) -> None:
        await store.save_secret(Secret("pending", "s", b"x", "a", expires_at=NOW - 1))
        await store.acquire("l", "p1", 0.0)
        await pruner.prune(limits())
        assert await store.secret("pending", "s") is None
        assert await store.forget_leases() == 0

    async def test_nobody_waits_long_for_the_writer(self, store: SqliteStore, pruner: Pruner) -> None:
        """Others write between any two parts, and the number of rows of one transaction is bounded."""
        for number in range(3000):
            await store.save_call(a_record(number, size=500))
        at_once: list[int] = []
        waits, wrote = asyncio.Event(), asyncio.Event()
        remove = store.remove

        async def watched(kind: Any, keys: Any) -> Any:
            at_once.append(len(keys))
            removed = await remove(kind, keys)
            # The next part waits until somebody else has written: nobody is kept from that in between.
            wrote.clear()
            waits.set()
            await wrote.wait()
            return removed

        store.remove = watched  # type: ignore[method-assign]
        pruning = asyncio.create_task(pruner.prune(limits(calls={"count": 100})))
        pruning.add_done_callback(lambda _: waits.set())
        written = 0
        while not pruning.done():
            await store.save_call(a_record(10_000 + written))
            written += 1
            wrote.set()
            await waits.wait()
            waits.clear()
        await pruning
        assert max(at_once) <= 250
        assert written >= len(at_once) > 1
        kept = await kept_keys(store)
        assert kept[0] == f"k{10_000 + written - 1}"
        assert 100 <= len(kept) <= 100 + written

    async def test_the_file_gets_smaller(self, store: SqliteStore, pruner: Pruner, tmp_path: Path) -> None:
        for number in range(400):
            await store.save_call(a_record(number, size=20_000))
        await pruner.prune(limits(calls={"count": 1}))
        await pruner.give_space_back(all_at_once=True)
        everything = sum(file.stat().st_size for file in (tmp_path / "state").iterdir())
        assert everything < 400_000

    async def test_a_file_of_an_older_spindle_gets_smaller_by_hand(
        self, tmp_path: Path, files: FolderFileStore, sealer: Sealer, notes: list[str]
    ) -> None:
        import sqlite3

        file = tmp_path / "old.db"
        with sqlite3.connect(file) as old:
            old.execute("CREATE TABLE made_before (x)")
            old.execute("DROP TABLE made_before")
        old.close()
        async with SqliteStore(file) as store:
            for number in range(200):
                await store.save_call(a_record(number, size=20_000))
            pruner = Pruner(store, store, files, sealer, notes.append, lambda: NOW)
            await pruner.prune(limits(calls={"count": 1}))
            await pruner.give_space_back()
            assert file.stat().st_size + Path(f"{file}-wal").stat().st_size > 4_000_000
            await pruner.give_space_back(all_at_once=True)
            assert file.stat().st_size + Path(f"{file}-wal").stat().st_size < 400_000
            assert len(await kept_keys(store)) == 1


def old(files: FolderFileStore, path: str, age: float) -> Path:
    os.utime(path, (NOW - age, NOW - age))
    return Path(path)


class TestFiles:
    async def test_those_over_a_limit_go_and_new_ones_stay_whatever_it_is(
        self, files: FolderFileStore, pruner: Pruner
    ) -> None:
        gone = old(files, await files.keep(b"1" * 1000, "image/png"), 9 * DAY)
        kept = old(files, await files.keep(b"2" * 1000, "image/png"), 1 * DAY)
        new = old(files, await files.keep(b"3" * 1000, "image/png"), GRACE / 2)
        done = await pruner.prune(limits(files={"age": "7d"}))
        assert (gone.exists(), kept.exists(), new.exists()) == (False, True, True)
        assert done[-1] == Pruned("files", 1, 1000)
        await pruner.prune(limits(files={"count": 0, "size": 0}))
        assert (kept.exists(), new.exists()) == (False, True)

    async def test_the_same_kept_again_counts_as_new(self, files: FolderFileStore, pruner: Pruner) -> None:
        path = old(files, await files.keep(b"1" * 1000, "image/png"), 9 * DAY)
        assert await files.keep(b"1" * 1000, "image/png") == str(path)
        await pruner.prune(limits(files={"age": "7d"}))
        assert path.exists()

    async def test_what_was_left_half_written_goes_and_what_is_being_written_stays(
        self, files: FolderFileStore, pruner: Pruner, tmp_path: Path
    ) -> None:
        await files.keep(b"x", None)
        left, writing = tmp_path / "files" / "a.part", tmp_path / "files" / "b.part"
        for part, age in ((left, ABANDONED + 1), (writing, 5 * GRACE)):
            part.write_bytes(b"half")
            os.utime(part, (NOW - age, NOW - age))
        await pruner.prune(limits(files={"count": 0}))
        assert (left.exists(), writing.exists()) == (False, True)

    async def test_only_files_of_the_folder_go(
        self, files: FolderFileStore, pruner: Pruner, tmp_path: Path
    ) -> None:
        outside = tmp_path / "outside"
        outside.write_text("mine")
        os.utime(outside, (1, 1))
        await files.keep(b"x", None)
        (tmp_path / "files" / "link").symlink_to(outside)
        (tmp_path / "files" / "folder").mkdir()
        await pruner.prune(limits(files={"age": "1d"}))
        assert outside.read_text() == "mine"
        assert (tmp_path / "files" / "link").is_symlink()

    @pytest.mark.parametrize("moment", ["before it is set aside", "after it was set aside"])
    async def test_one_kept_again_while_it_is_removed_is_there(
        self, moment: str, files: FolderFileStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = old(files, await files.keep(b"1" * 100, "image/png"), 9 * DAY)
        rename, kept = Path.rename, list[str]()

        def keep_again() -> None:
            kept.append(files._write(b"1" * 100, "image/png"))

        def interrupted(self: Path, target: Path) -> Path:
            if not kept and moment.startswith("before"):
                keep_again()
            done = rename(self, target)
            if not kept:
                keep_again()
            return done

        monkeypatch.setattr(Path, "rename", interrupted)
        files.remove(files.list_kept()[0])
        assert kept == [str(path)]
        assert path.read_bytes() == b"1" * 100
        assert len(files.list_kept()) == 1


class TestRunsThatAreNotOver:
    """Neither they nor a file they know of goes, however old both are."""

    async def save(self, store: SqliteStore, sealer: Sealer, run: Run, content: Any) -> None:
        sealed = sealer.seal(content, f"run:{run.id}:/x")
        await store.save_run(run, [RunEvent(run.id, "step", run.created_at, "/x", sealed)])

    @pytest.mark.parametrize("status", ["paused", "running"])
    async def test_a_file_in_its_record_stays(
        self, status: Any, store: SqliteStore, files: FolderFileStore, sealer: Sealer, pruner: Pruner
    ) -> None:
        needed = old(files, await files.keep(b"1" * 1000, "image/png"), 900 * DAY)
        other = old(files, await files.keep(b"2" * 1000, "image/png"), 900 * DAY)
        run = Run("a.b", status=status, created_at=1.0, updated_at=1.0, id="r1")
        await self.save(store, sealer, run, {"content": [{"type": "image", "path": str(needed)}]})
        await pruner.prune(limits(runs={"age": "1d", "count": 0}, files={"age": "1d"}))
        assert (needed.exists(), other.exists()) == (True, False)
        assert await store.run("r1") == run
        assert len(await store.history("r1")) == 1

    async def test_a_file_in_a_question_or_its_answer_stays(
        self, store: SqliteStore, files: FolderFileStore, sealer: Sealer, pruner: Pruner
    ) -> None:
        asked = old(files, await files.keep(b"1" * 1000, "image/png"), 900 * DAY)
        answered = old(files, await files.keep(b"2" * 1000, "image/png"), 900 * DAY)
        pauses = [
            Pause("t1", "r1", "/x", "input", "?", LOCAL, 1.0, sealed=sealer.seal(str(asked), "pause:t1")),
            Pause("t2", "r1", "/y", "input", "?", LOCAL, 1.0, state="answered",
                  answer=sealer.seal(str(answered), "answer:t2")),
        ]  # fmt: skip
        await store.save_run(Run("a.b", status="paused", id="r1"), pauses=pauses)
        await pruner.prune(limits(files={"age": "1d"}))
        assert (asked.exists(), answered.exists()) == (True, True)

    async def test_a_run_that_executes_keeps_all_since_its_beginning(
        self, store: SqliteStore, files: FolderFileStore, sealer: Sealer, pruner: Pruner
    ) -> None:
        since = old(files, await files.keep(b"1" * 1000, "image/png"), 4 * DAY)
        before = old(files, await files.keep(b"2" * 1000, "image/png"), 6 * DAY)
        await store.save_run(Run("a.b", created_at=NOW - 5 * DAY, id="r1", owner="p", lease=30.0))
        await pruner.prune(limits(files={"age": "1d"}))
        assert (since.exists(), before.exists()) == (True, False)

    async def test_no_file_goes_where_a_record_cannot_be_read(
        self, store: SqliteStore, files: FolderFileStore, pruner: Pruner, notes: list[str]
    ) -> None:
        file = old(files, await files.keep(b"1" * 1000, "image/png"), 900 * DAY)
        other = Sealer(lambda: [Fernet.generate_key().decode()])
        await self.save(store, other, Run("a.b", status="paused", id="r1"), {})
        await pruner.prune(limits(files={"age": "1d"}))
        assert file.exists()
        assert "r1" in notes[0]
        assert "another key" in notes[0]

    async def test_one_that_has_ended_keeps_nothing(
        self, store: SqliteStore, files: FolderFileStore, sealer: Sealer, pruner: Pruner
    ) -> None:
        file = old(files, await files.keep(b"1" * 1000, "image/png"), 900 * DAY)
        run = Run("a.b", status="done", updated_at=NOW - 9 * DAY, id="r1")
        await self.save(store, sealer, run, {"path": str(file)})
        await pruner.prune(limits(runs={"age": "7d"}, files={"age": "7d"}))
        assert not file.exists()
        assert await store.run("r1") is None
        assert await store.history("r1") == []
