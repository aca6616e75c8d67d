from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import spindle
from spindle.domain.call import CallRecord
from spindle.errors import StoreError
from spindle.stores import worker as worker_module
from spindle.stores.migrate import migrations
from spindle.stores.sqlite import SqliteStore
from spindle.stores.worker import Worker


def a_record(key: str, size: int = 1) -> CallRecord:
    return CallRecord(key, "a.b", "a", "local", {"text": "x" * size}, "ok", 1.0, 0.1, 1)


@contextlib.contextmanager
def limited_to(store: SqliteStore, pages: int) -> Iterator[None]:
    """A file that may not grow past so many pages fails as one on a full disk does."""
    connect = store._connect

    def limited() -> sqlite3.Connection:
        connection = connect()
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    store._connect = store._writer._connect = limited
    store._calls._count = -(10**9)  # all records go straight into the table: no other file has such a bound
    yield


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=800k", "tmpfs", str(folder)]
    if (
        os.geteuid() != 0
        or not shutil.which("mount")
        or subprocess.run(mount, capture_output=True).returncode
    ):
        pytest.skip("a disk of its own needs the right to mount one")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


async def fill(store: SqliteStore, size: int = 20_000) -> StoreError:
    for number in itertools.count():
        try:
            await store.save_call(a_record(f"{size}-{number}", size))
        except StoreError as error:
            return error
    raise AssertionError


async def test_a_full_disk_is_a_store_error_that_says_what_to_do(small_disk: Path) -> None:
    async with SqliteStore(small_disk / "state.db") as store:
        error = await fill(store)
        assert "full" in error.message
        assert error.hint == "free some space on the disk that holds the workspace"
        kept = [record.key for record in await store.calls(limit=1000)]
    async with SqliteStore(small_disk / "state.db") as store:
        assert [record.key for record in await store.calls(limit=1000)] == kept


async def test_a_full_file_is_a_store_error_and_writing_goes_on_when_there_is_room(file: Path) -> None:
    async with SqliteStore(file):
        pass
    store = SqliteStore(file)
    with limited_to(store, 60):
        async with store:
            error = await fill(store)
            assert error.hint == "free some space on the disk that holds the workspace"
            await store._writer.run(lambda db: db.execute("PRAGMA max_page_count = 100000") and None)
            await store.save_call(a_record("after", size=20_000))
            assert await store.call("after") is not None


@pytest.mark.parametrize("settings", ["", "[sources.tools.cache]\nttl = 60"])
async def test_a_call_returns_its_result_though_the_disk_is_full(settings: str, file: Path) -> None:
    workspace = file.parent
    (workspace / "tools").mkdir(parents=True)
    (workspace / "tools" / "echo.py").write_text(
        "from spindle import tool\n@tool(read_only=True)\ndef echo(text: str) -> str:\n    return text\n"
    )
    (workspace / "spindle.toml").write_text(settings)
    async with SqliteStore(file):
        pass
    store, notes = SqliteStore(file), list[str]()
    with limited_to(store, 60):
        async with spindle.open(workspace, store=await store.open(), note=notes.append) as app:
            await app.sync()
            await fill(store)
            await fill(store, size=1)
            result = await app.call("echo", text="done" * 500)
    assert result.text == "done" * 500
    assert any("could not be recorded" in note for note in notes)


async def test_a_damaged_file_is_a_store_error_that_says_what_to_do(file: Path) -> None:
    file.parent.mkdir()
    file.write_bytes(b"this was never a database" * 100)
    with pytest.raises(StoreError) as caught:
        await SqliteStore(file).open()
    assert caught.value.hint == "the state file is damaged; move it away and run `spindle sync`"


async def test_a_file_damaged_in_the_middle_is_a_store_error(file: Path) -> None:
    async with SqliteStore(file) as store:
        for number in range(50):
            await store.save_call(a_record(f"k{number}", size=3000))
    with file.open("r+b") as handle:
        size = file.stat().st_size
        for page in range(1, size // 4096):
            handle.seek(page * 4096)
            handle.write(os.urandom(4096))
    with pytest.raises(StoreError) as caught:
        async with SqliteStore(file) as store:
            await store.calls(limit=1000)
    assert caught.value.details == "SQLITE_CORRUPT"
    assert caught.value.hint is not None


async def test_a_file_of_a_newer_version_is_refused(file: Path) -> None:
    async with SqliteStore(file):
        pass
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute(f"PRAGMA user_version = {len(migrations()) + 1}")
    with pytest.raises(StoreError, match="newer Spindle") as caught:
        await SqliteStore(file).open()
    assert "upgrade" in (caught.value.hint or "")


async def test_a_folder_that_cannot_be_made_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file, not a folder")
    with pytest.raises(StoreError, match="cannot create the folder"):
        await SqliteStore(tmp_path / "taken" / "state.db").open()


async def test_a_folder_in_the_place_of_the_file_is_a_store_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as caught:
        await SqliteStore(tmp_path).open()
    assert "cannot be opened" in (caught.value.hint or "")


OPEN = """
import asyncio, sys
from spindle.errors import StoreError
from spindle.stores.sqlite import SqliteStore
async def main():
    try:
        store = await SqliteStore(sys.argv[1]).open()
        await store.clear_cache()
    except StoreError as error:
        print(error.hint)
asyncio.run(main())
"""


@pytest.mark.parametrize("existing", [False, True])
async def test_a_folder_that_may_not_be_written_is_a_store_error(existing: bool, file: Path) -> None:
    if existing:
        async with SqliteStore(file):
            pass
        file.chmod(0o444)
    else:
        file.parent.mkdir()
    file.parent.chmod(0o555)
    command = [sys.executable, "-c", OPEN, str(file)]
    if os.geteuid() == 0:
        # Root may write everywhere, unless that right is taken from it.
        if not shutil.which("setpriv"):
            pytest.skip("root cannot be denied without setpriv")
        command = ["setpriv", "--bounding-set=-dac_override", *command]
    ran = subprocess.run(command, capture_output=True, text=True)
    file.parent.chmod(0o755)
    assert "check its permissions" in ran.stdout, ran.stderr


async def test_opening_again_keeps_what_is_there(file: Path) -> None:
    async with SqliteStore(file) as store:
        await store.save_call(a_record("k"))
    async with SqliteStore(file) as store:
        assert await store.call("k") == a_record("k")
    with contextlib.closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (len(migrations()),)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


async def test_a_migration_that_fails_leaves_nothing_behind(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "0002.sql"
    broken.write_text("CREATE TABLE later (x);\nCREATE TABLE wrong (;\n")
    known = migrations()
    monkeypatch.setattr("spindle.stores.migrate.migrations", lambda: [*known, broken])
    with pytest.raises(StoreError):
        await SqliteStore(file).open()
    with contextlib.closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    monkeypatch.undo()
    async with SqliteStore(file) as store:
        assert await store.names() == []


# --- the worker


@pytest.fixture
def statements() -> list[str]:
    return []


@pytest.fixture
async def worker(statements: list[str]) -> Any:
    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        connection.execute("CREATE TABLE t (x UNIQUE)")
        connection.set_trace_callback(statements.append)
        return connection

    made = Worker(connect, name="test", transactions=True)
    yield made
    await made.close()


def insert(value: int) -> Callable[[sqlite3.Connection], None]:
    return lambda db: db.execute("INSERT INTO t VALUES (?)", (value,)) and None


def count(db: sqlite3.Connection) -> int:
    return db.execute("SELECT count(*) FROM t").fetchone()[0]


async def test_jobs_that_wait_together_share_one_transaction(worker: Worker, statements: list[str]) -> None:
    await asyncio.gather(*(worker.run(insert(number)) for number in range(100)))
    commits = statements.count("COMMIT")
    assert await worker.run(count) == 100
    # The thread may take the first alone; all that came while it worked go together.
    assert commits <= 3


async def test_a_batch_has_a_limit(worker: Worker, statements: list[str]) -> None:
    jobs = 3 * worker_module.MAX_BATCH
    await asyncio.gather(*(worker.run(insert(number)) for number in range(jobs)))
    assert statements.count("COMMIT") >= 3
    assert await worker.run(count) == jobs


async def test_a_job_that_fails_takes_back_only_its_own_work(worker: Worker) -> None:
    def half(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO t VALUES (1000)")
        raise ValueError("changed my mind")

    outcomes = await asyncio.gather(
        worker.run(insert(1)), worker.run(half), worker.run(insert(2)), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [type(None), ValueError, type(None)]
    assert await worker.run(count) == 2


async def test_a_batch_that_sqlite_undid_fails_with_the_cause(worker: Worker) -> None:
    def undone(db: sqlite3.Connection) -> None:
        db.execute("INSERT OR ROLLBACK INTO t VALUES (1)")

    await worker.run(insert(1))
    with pytest.raises(StoreError, match="UNIQUE constraint"):
        await worker.run(undone)
    await worker.run(insert(2))
    assert await worker.run(count) == 2


async def test_a_connection_that_fails_is_tried_again_by_the_next_job() -> None:
    attempts: list[int] = []

    def connect() -> sqlite3.Connection:
        attempts.append(1)
        if len(attempts) == 1:
            raise sqlite3.OperationalError("not now")
        return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)

    worker = Worker(connect, name="test", transactions=False)
    with pytest.raises(StoreError, match="not now"):
        await worker.run(lambda db: None)
    assert await worker.run(lambda db: 5) == 5
    await worker.close()


async def test_a_job_whose_caller_gave_up_is_done_all_the_same(worker: Worker) -> None:
    job = asyncio.ensure_future(worker.run(insert(1)))
    await asyncio.sleep(0)
    job.cancel()
    with pytest.raises(asyncio.CancelledError):
        await job
    assert await worker.run(count) == 1


def test_an_answer_for_a_loop_that_is_gone_is_dropped() -> None:
    worker = Worker(
        lambda: sqlite3.connect(":memory:", check_same_thread=False), name="t", transactions=False
    )

    async def leave() -> None:
        job = asyncio.ensure_future(worker.run(lambda db: 1))
        await asyncio.sleep(0)
        job.cancel()

    asyncio.run(leave())

    async def use_again() -> int:
        value = await worker.run(lambda db: 2)
        await worker.close()
        return value

    assert asyncio.run(use_again()) == 2


async def test_the_folder_of_the_state_is_the_users_own(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / ".spindle" / "state.db"):
        assert (tmp_path / ".spindle").stat().st_mode & 0o777 == 0o700
