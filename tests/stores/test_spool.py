"""Records that go through a file of their process: durable at once, moved into the table once."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from spindle.domain.call import CallRecord
from spindle.errors import StoreError
from spindle.stores import spool
from spindle.stores.backup import copy_database
from spindle.stores.sqlite import SqliteStore
from spindle.stores.sqlite_calls import FEW, GROUP

MANY = FEW + 20


def record(number: int, size: int = 1) -> CallRecord:
    return CallRecord(f"k{number:05}", "a.b", "a", "local", {"n": "x" * size}, "ok", float(number), 0.1, 1)


def names(first: int, last: int) -> list[str]:
    return [f"k{number:05}" for number in range(first, last)]


def stored(path: Path) -> list[str]:
    with sqlite3.connect(path) as db:
        return [key for (key,) in db.execute("SELECT key FROM calls ORDER BY id")]


def files(path: Path) -> list[Path]:
    return sorted(spool.folder_of(path).glob("*"))


async def keys(store: SqliteStore) -> list[str]:
    return [found.key for found in reversed(await store.calls(limit=-1))]


async def moved(store: SqliteStore) -> None:
    """Waits until what was to be moved is."""
    calls = store._calls
    async with asyncio.timeout(30):
        while calls._timer is not None or calls._moving is None or not calls._moving.done():
            await asyncio.sleep(0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


async def test_few_records_need_no_file_and_many_go_through_one(path: Path) -> None:
    async with SqliteStore(path) as store:
        for number in range(FEW):
            await store.save_call(record(number))
        assert not spool.folder_of(path).exists()
        assert stored(path) == names(0, FEW)
        for number in range(FEW, MANY):
            await store.save_call(record(number))
        assert stored(path) == names(0, FEW)
        (file,) = files(path)
        assert len(file.read_bytes().splitlines()) == MANY - FEW
        assert await keys(store) == names(0, MANY)
        assert await keys(store) == names(0, MANY)
        assert len(files(path)) == 1
    assert files(path) == []
    assert stored(path) == names(0, MANY)


async def test_only_the_owner_may_read_what_is_on_its_way(path: Path) -> None:
    async with SqliteStore(path) as store:
        for number in range(MANY):
            await store.save_call(record(number))
        (file,) = files(path)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


async def test_one_record_is_found_by_its_key_wherever_it_is(path: Path) -> None:
    async with SqliteStore(path) as store, SqliteStore(path) as other:
        for number in range(MANY):
            await store.save_call(record(number))
        found = await other.call(f"k{MANY - 1:05}")
        assert found is not None
        assert found.arguments == {"n": "x"}
        assert len(files(path)) == 1


async def test_two_who_read_at_once_move_each_record_once(path: Path) -> None:
    async with SqliteStore(path) as store, SqliteStore(path) as one, SqliteStore(path) as two:
        expected: list[str] = []
        for start in range(0, 600, 30):
            for number in range(start, start + 30):
                await store.save_call(record(number))
            expected += names(start, start + 30)
            found = await asyncio.gather(keys(one), keys(two), keys(store))
            assert found == [expected] * 3


async def test_a_group_is_moved_without_a_reader(path: Path) -> None:
    async with SqliteStore(path) as store:
        for number in range(FEW + 2 * GROUP):
            await store.save_call(record(number))
        await moved(store)
        assert stored(path) == names(0, FEW + 2 * GROUP)
    assert files(path) == []


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files of records that were read."""
    found: list[Path] = []
    read = spool._read

    def noted(path: Path, start: int) -> spool._Found:
        found.append(path)
        return read(path, start)

    monkeypatch.setattr(spool, "_read", noted)
    return found


async def test_what_a_process_holds_in_memory_is_not_read_from_its_file(
    path: Path, reads: list[Path]
) -> None:
    async with SqliteStore(path) as store:
        for number in range(FEW + 3 * GROUP):
            await store.save_call(record(number))
            if number % 100 == 0:
                await asyncio.sleep(0)
        await moved(store)
        assert stored(path) == names(0, FEW + 3 * GROUP)
        assert reads == []


async def test_records_that_a_reader_has_moved_meanwhile_are_not_moved_again_nor_the_others_read(
    path: Path, reads: list[Path]
) -> None:
    async with SqliteStore(path) as store, SqliteStore(path) as reader:
        for number in range(FEW + GROUP):
            await store.save_call(record(number))
            if number == FEW + GROUP // 2:
                assert await keys(reader) == names(0, number + 1)
        await moved(store)
        assert stored(path) == names(0, FEW + GROUP)
        assert len(reads) == 1


async def test_records_of_a_file_that_others_have_moved_and_removed_are_not_moved_again(path: Path) -> None:
    async with SqliteStore(path) as store, SqliteStore(path) as reader:
        for number in range(MANY):
            await store.save_call(record(number))
        held = store._calls._spool
        own = held.take()
        held.close()
        assert await keys(reader) == names(0, MANY)
        assert await keys(reader) == names(0, MANY)
        assert files(path) == []
        assert await store._writer.run(lambda db: spool.move_own(db, own))
        assert stored(path) == names(0, MANY)


async def test_records_beyond_those_held_in_memory_are_read_from_the_file(
    path: Path, monkeypatch: pytest.MonkeyPatch, reads: list[Path]
) -> None:
    monkeypatch.setattr(spool, "MOST_HELD", 50)
    async with SqliteStore(path) as store:
        for number in range(FEW + 2 * GROUP):  # in one turn, in which nothing is moved
            await store.save_call(record(number))
        assert store._calls._spool._held <= 50
        await moved(store)
        assert stored(path) == names(0, FEW + 2 * GROUP)
        assert reads
        reads.clear()
        for number in range(FEW + 2 * GROUP, FEW + 2 * GROUP + 40):
            await store.save_call(record(number))
        store._calls._move_now()
        await moved(store)
        assert stored(path) == names(0, FEW + 2 * GROUP + 40)
        assert reads == []


async def test_a_lone_record_is_moved_after_a_while(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spindle.stores.sqlite_calls.MOVE_AFTER", 0.0)
    async with SqliteStore(path) as store:
        for number in range(FEW + 1):
            await store.save_call(record(number))
        await moved(store)
        assert stored(path) == names(0, FEW + 1)


async def test_a_group_that_finds_the_database_held_is_moved_when_it_is_free(path: Path) -> None:
    async with SqliteStore(path) as store:
        other = sqlite3.connect(path, isolation_level=None)
        for number in range(FEW):
            await store.save_call(record(number))
        other.execute("BEGIN IMMEDIATE")
        for number in range(FEW, FEW + GROUP):
            await store.save_call(record(number))
        assert stored(path) == names(0, FEW)
        other.execute("COMMIT")
        other.close()
        assert store._calls._moving is not None
        await store._calls._moving
        assert stored(path) == names(0, FEW + GROUP)


async def test_a_store_that_is_closed_while_records_are_moved_looks_no_more_for_others(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spindle.stores.sqlite_calls.MOVE_AFTER", 0.0)
    other = sqlite3.connect(path, isolation_level=None)
    async with SqliteStore(path) as store:
        calls = store._calls
        for number in range(FEW):
            await store.save_call(record(number))
        other.execute("BEGIN IMMEDIATE")
        for number in range(FEW, FEW + GROUP):
            await store.save_call(record(number))
        async with asyncio.timeout(30):
            while calls._unmoved:  # until the group is being moved, which waits for the other
                await asyncio.sleep(0)
            await store.save_call(record(FEW + GROUP))
            while calls._timer is not None:  # until it was time for this record too
                await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(other.execute, "COMMIT")
    last = calls._moving
    for _ in range(10):
        await asyncio.sleep(0)
    assert calls._moving is last
    assert calls._timer is None
    other.close()
    assert stored(path) == names(0, FEW + GROUP + 1)


async def test_records_are_appended_while_another_process_holds_the_database(path: Path) -> None:
    async with SqliteStore(path) as store:
        for number in range(FEW):
            await store.save_call(record(number))
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        await store.save_call(record(FEW))
        assert stored(path) == names(0, FEW)
        other.execute("COMMIT")
        other.close()
        assert await keys(store) == names(0, FEW + 1)


WRITER = """
import asyncio, sys
from spindle.domain.call import CallRecord
from spindle.stores.sqlite import SqliteStore

async def main():
    async with SqliteStore(sys.argv[1]) as store:
        number = 0
        while True:
            key = f"{sys.argv[2]}{number}"
            await store.save_call(CallRecord(key, "a.b", "a", "local", {}, "ok", 1.0, 0.1, 1))
            print(number, flush=True)
            number += 1

asyncio.run(main())
"""


def start_writer(path: Path, name: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), name]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


async def test_what_a_killed_process_has_said_is_written_is_there_once(path: Path) -> None:
    async with SqliteStore(path) as store:
        for attempt in range(3):
            writers = {name: start_writer(path, f"{name}{attempt}-") for name in "ab"}
            for number, writer in enumerate(writers.values()):
                assert writer.stdout is not None
                for _ in range(300 + 117 * attempt + number):
                    writer.stdout.readline()
            middle = await keys(store)
            assert len(middle) == len(set(middle))
            for name, writer in writers.items():
                writer.send_signal(signal.SIGKILL)
                said = writer.communicate()[0].split()
                last = int(said[-1] if said else 300 + 117 * attempt)
                found = set(await keys(store))
                assert {f"{name}{attempt}-{number}" for number in range(last + 1)} <= found
        everything = await keys(store)
        assert len(everything) == len(set(everything))
        assert files(path) == []


def leave_behind(path: Path, data: bytes) -> Path:
    """A file of a process that is gone."""
    folder = spool.folder_of(path)
    folder.mkdir()
    file = folder / f"left{spool.ENDING}"
    file.write_bytes(data)
    return file


def line(number: int) -> bytes:
    return spool.line_of((f"k{number:05}", "a.b", "a", "local", b"{}", "ok", 1.0, 0.1, 1, None, None, None))


@pytest.mark.parametrize(
    ("data", "expected", "aside"),
    [
        (line(0) + line(1)[:20], ["k00000"], line(1)[:20] + b"\n"),
        (line(0) + b"\0" * 500, ["k00000"], None),
        (line(0) + b"{nonsense\n" + line(1), ["k00000", "k00001"], b"{nonsense\n"),
        (b'["short"]\n' + line(0), ["k00000"], b'["short"]\n'),
        (line(0).replace(b'"a.b"', b'[1,2]') + line(1), ["k00001"], line(0).replace(b'"a.b"', b'[1,2]')),
        (line(0).replace(b"1.0", b'"x"', 1) + line(1), ["k00001"], line(0).replace(b"1.0", b'"x"', 1)),
        (line(0).replace(b'"ok"', b"null") + line(1), ["k00001"], line(0).replace(b'"ok"', b"null")),
        (line(0).replace(b',1,null', b',%d,null' % 2**64) + line(1), ["k00001"],
         line(0).replace(b',1,null', b',%d,null' % 2**64)),
        (b"", [], None),
    ],
    ids=["cut off", "zeros", "no JSON", "short", "a cell of another type", "no time", "no outcome",
         "a large number", "empty"],
)  # fmt: skip
async def test_what_cannot_be_read_is_set_aside_and_the_rest_counts(
    path: Path, data: bytes, expected: list[str], aside: bytes | None
) -> None:
    file = leave_behind(path, data)
    async with SqliteStore(path) as store:
        assert await keys(store) == expected
        assert await keys(store) == expected
    assert not file.exists()
    damaged = file.with_suffix(spool.DAMAGED)
    assert (damaged.read_bytes() if damaged.exists() else None) == aside


async def test_a_file_larger_than_what_is_read_at_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "MAX_READ", 1000)
    leave_behind(path, b"".join(line(number) for number in range(100)) + b"x" * 2500 + b"\n" + line(100))
    async with SqliteStore(path) as store:
        assert await keys(store) == names(0, 101)
    assert [file.suffix for file in files(path)] == [spool.DAMAGED]


async def test_a_link_is_not_followed(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(line(0))
    leave_behind(path, b"").unlink()
    (spool.folder_of(path) / f"link{spool.ENDING}").symlink_to(other)
    async with SqliteStore(path) as store:
        with pytest.raises(StoreError, match="link"):
            await keys(store)
    assert other.read_bytes() == line(0)


async def test_what_is_set_aside_goes_through_no_link(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"mine")
    file = leave_behind(path, b"nonsense\n")
    file.with_suffix(spool.DAMAGED).symlink_to(other)
    async with SqliteStore(path) as store:
        with pytest.raises(StoreError, match="cannot be read"):
            await keys(store)
    assert other.read_bytes() == b"mine"


async def test_a_folder_that_is_none_is_a_store_error_that_names_it(path: Path) -> None:
    async with SqliteStore(path) as store:
        spool.folder_of(path).write_bytes(b"")
        with pytest.raises(StoreError, match=r"state\.db-calls cannot be read"):
            await keys(store)
        for number in range(FEW):
            await store.save_call(record(number))
        with pytest.raises(StoreError, match="could not be written"):
            await store.save_call(record(FEW))


async def test_a_part_of_a_line_that_stays_does_not_spoil_the_next(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write

    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, "broken")

    async with SqliteStore(path) as store:
        for number in range(MANY):
            await store.save_call(record(number))
        with monkeypatch.context() as patched:
            patched.setattr(os, "write", lambda file, data: write(file, data[:10]))
            patched.setattr(os, "ftruncate", refuse)
            with pytest.raises(StoreError, match="broken"):
                await store.save_call(record(MANY))
        await store.save_call(record(MANY + 1))
        assert await keys(store) == [*names(0, MANY), f"k{MANY + 1:05}"]


async def test_a_long_file_is_left_for_a_new_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "MAX_FILE", 2000)
    async with SqliteStore(path) as store:
        for number in range(200):
            await store.save_call(record(number))
        assert len(files(path)) > 3
        await moved(store)
        assert stored(path) == names(0, 200)
        assert len(files(path)) <= 1, "nobody has read them"
        assert await keys(store) == names(0, 200)


async def test_a_large_record_goes_straight_into_the_table(path: Path) -> None:
    async with SqliteStore(path) as store:
        for number in range(FEW + 1):
            await store.save_call(record(number, size=spool.MAX_ROW))
        assert not spool.folder_of(path).exists()
        assert stored(path) == names(0, FEW + 1)


async def test_a_backup_has_all_records(path: Path, tmp_path: Path) -> None:
    async with SqliteStore(path) as store:
        for number in range(MANY):
            await store.save_call(record(number))
        copy_database(path, tmp_path / "copy.db")
    assert stored(tmp_path / "copy.db") == names(0, MANY)


async def test_what_fails_to_be_moved_is_told_to_who_reads_and_moved_later(path: Path) -> None:
    async with SqliteStore(path) as store:
        for number in range(MANY):
            await store.save_call(record(number))
        with sqlite3.connect(path) as db:
            db.execute("ALTER TABLE calls RENAME TO aside")
        with pytest.raises(StoreError, match="no such table"):
            await keys(store)
        with sqlite3.connect(path) as db:
            db.execute("ALTER TABLE aside RENAME TO calls")
        assert await keys(store) == names(0, MANY)


async def test_a_full_disk_leaves_no_half_record(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write

    def half(file: int, data: bytes) -> int:
        return write(file, data[: len(data) // 2])

    async with SqliteStore(path) as store:
        for number in range(MANY):
            await store.save_call(record(number))
        with monkeypatch.context() as patched:
            patched.setattr(os, "write", half)
            with pytest.raises(StoreError, match="disk is full") as caught:
                await store.save_call(record(MANY))
        assert caught.value.details == "ENOSPC"
        await store.save_call(record(MANY + 1))
        assert await keys(store) == [*names(0, MANY), f"k{MANY + 1:05}"]


async def test_records_of_one_turn_are_written_at_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, writes = os.write, list[int]()

    def counted(file: int, data: bytes) -> int:
        writes.append(data.count(b"\n"))
        return write(file, data)

    async with SqliteStore(path) as store:
        for number in range(FEW):
            await store.save_call(record(number))
        with monkeypatch.context() as patched:
            patched.setattr("spindle.stores.spool.os.write", counted)
            saving = [
                asyncio.ensure_future(store.save_call(record(n), together=True)) for n in range(FEW, 40)
            ]
            saving[3].cancel()
            await asyncio.gather(*saving, return_exceptions=True)
        assert 40 - FEW in writes
        assert sorted(await keys(store)) == names(0, 40)


async def test_each_record_of_a_turn_is_told_that_the_disk_is_full(path: Path) -> None:
    async with SqliteStore(path) as store:
        for number in range(MANY):
            await store.save_call(record(number))
        (file,) = files(path)
        assert store._calls._spool is not None
        os.close(store._calls._spool._file or -1)
        saving = [asyncio.ensure_future(store.save_call(record(n), together=True)) for n in range(50, 53)]
        outcomes = await asyncio.gather(*saving, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [StoreError] * 3
        store._calls._spool._file = None
        assert await keys(store) == names(0, MANY)
        assert not file.exists()


async def test_a_closed_store_takes_no_record(path: Path) -> None:
    store = await SqliteStore(path).open()
    for number in range(MANY):
        await store.save_call(record(number))
    await store.close()
    with pytest.raises(StoreError, match="closed"):
        await store.save_call(record(MANY))
    assert files(path) == []
