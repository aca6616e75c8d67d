"""The state in one file and back: whole, checked, and never under somebody's feet."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sqlite3
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from servers.shell import Run, Workspace
from spindle.domain.call import CallRecord
from spindle.domain.identity import Secret
from spindle.domain.run import Run as StoredRun
from spindle.stores.files import FolderFileStore
from spindle.stores.sqlite import SqliteStore

DATA = b"x" * 1000
NAME = hashlib.sha256(DATA).hexdigest()[:32] + ".png"


def in_store(workspace: Workspace, work: Callable[[SqliteStore], Any]) -> Any:
    async def opened() -> Any:
        async with SqliteStore(workspace.root / ".spindle" / "state.db") as store:
            return await work(store)

    return asyncio.run(opened())


def call(workspace: Workspace, key: str, at: float = 1000.0) -> None:
    record = CallRecord(key, "a.b", "a", "ann", {"text": key}, "ok", at, 0.1, 1)
    in_store(workspace, lambda store: store.save_call(record))


@pytest.fixture
def filled(workspace: Workspace) -> Workspace:
    """A state with a call, a paused run and a kept file."""
    call(workspace, "k1")
    paused = StoredRun("a.b", status="paused", id="r1", owner="p1", lease=30.0)
    in_store(workspace, lambda store: store.save_run(paused))
    asyncio.run(FolderFileStore(workspace.root / ".spindle" / "files").keep(DATA, "image/png"))
    return workspace


def keys(spindle: Run) -> list[str]:
    return [record["key"] for record in json.loads(spindle("history", "--json").out)]


def test_a_backup_is_put_back_whole(filled: Workspace, spindle: Run, tmp_path: Path) -> None:
    made = spindle("backup", "saved.zip")
    assert (made.code, made.out[:37]) == (0, "wrote the database and 1 file to save")
    assert "the key is not in it" in made.err
    assert stat.S_IMODE(Path("saved.zip").stat().st_mode) == 0o600
    # Into another workspace.
    other = tmp_path / "other"
    other.mkdir()
    (other / "spindle.toml").touch()
    done = spindle("restore", "saved.zip", "-w", str(other))
    assert (done.code, done.out) == (0, "restored the database and 1 file from saved.zip\n")
    restored = Workspace(other)
    assert (other / ".spindle" / "files" / NAME).read_bytes() == DATA
    assert [found.key for found in in_store(restored, lambda store: store.calls(limit=9))] == ["k1"]
    [run] = in_store(restored, lambda store: store.runs(limit=9))
    assert (run.id, run.status) == ("r1", "paused")
    loose = [path for path in (other / ".spindle").rglob("*") if path.stat().st_mode & 0o077]
    assert loose == []
    assert not list((other / ".spindle").glob(".restoring*"))


def test_a_backup_is_made_while_others_write(filled: Workspace, spindle: Run) -> None:
    """All of what was acknowledged before is in it, and each record whole."""
    store = SqliteStore(filled.root / ".spindle" / "state.db")

    async def work() -> int:
        from spindle.stores.backup import back_up

        await store.open()
        written = 0
        files = FolderFileStore(filled.root / ".spindle" / "files")
        target, database = filled.root / "saved.zip", filled.root / ".spindle" / "state.db"
        making = asyncio.create_task(
            asyncio.to_thread(back_up, database, files, target, replace=False, status=lambda _text: None)
        )
        while not making.done():
            await store.save_call(CallRecord(f"w{written}", "a.b", "a", "ann", {}, "ok", 1.0, 0.1, 1))
            written += 1
            await asyncio.sleep(0)
        await making
        await store.close()
        return written

    assert asyncio.run(work()) > 0
    with zipfile.ZipFile("saved.zip") as archive:
        archive.extract("state.db", "out")
    with sqlite3.connect("out/state.db") as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        found = [key for (key,) in db.execute("SELECT key FROM calls ORDER BY id")]
    assert found[0] == "k1"
    assert found[1:] == [f"w{number}" for number in range(len(found) - 1)]


def test_json_says_what_is_in_it(filled: Workspace, spindle: Run) -> None:
    made = spindle("backup", "saved.zip", "--json").json
    assert (made["calls"], made["runs"], made["files"], made["bytes"] > 1000) == (1, 1, 1, True)
    assert "key" in made
    done = spindle("restore", "saved.zip", "--json").json
    assert (done["files"], done["readable"], done["replaced"]) == (1, True, None)


def test_a_file_that_is_there_is_not_replaced(filled: Workspace, spindle: Run) -> None:
    Path("saved.zip").write_text("mine")
    done = spindle("backup", "saved.zip")
    assert (done.code, "exists already" in done.err, Path("saved.zip").read_text()) == (2, True, "mine")
    assert spindle("backup", "saved.zip", "--force").code == 0
    assert spindle("backup", "no/such/folder.zip").code == 11
    assert [path.name for path in Path().glob(".backup*")] == []


def test_nothing_newer_is_lost_without_force(filled: Workspace, spindle: Run) -> None:
    spindle("backup", "saved.zip")
    call(filled, "k2", at=4e9)
    done = spindle("restore", "saved.zip")
    assert done.code == 11
    assert "newer than the backup" in done.err
    assert "1 calls" in done.err or "1 call" in done.err
    assert keys(spindle) == ["k2", "k1"]
    forced = spindle("restore", "saved.zip", "--force")
    assert forced.code == 0
    assert "what was there before is in" in forced.err
    assert keys(spindle) == ["k1"]
    copy = filled.root / ".spindle" / "state.db.replaced"
    with sqlite3.connect(copy) as db:
        assert db.execute("SELECT count(*) FROM calls").fetchone() == (2,)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600


@pytest.mark.parametrize("more", [(), ("--force",)])
def test_nothing_is_restored_under_a_process_that_uses_the_state(
    more: tuple[str, ...], filled: Workspace, spindle: Run
) -> None:
    spindle("backup", "saved.zip")
    store = SqliteStore(filled.root / ".spindle" / "state.db")
    asyncio.run(store.open())
    try:
        done = spindle("restore", "saved.zip", *more)
        assert done.code == 11
        assert "another process uses the state" in done.err
    finally:
        asyncio.run(store.close())
    assert spindle("restore", "saved.zip", *more).code == 0


def test_a_damaged_state_is_replaced_with_force(filled: Workspace, spindle: Run) -> None:
    spindle("backup", "saved.zip")
    database = filled.root / ".spindle" / "state.db"
    database.write_bytes(b"not a database" * 1000)
    done = spindle("restore", "saved.zip")
    assert (done.code, "the state is damaged" in done.err) == (11, True)
    assert spindle("restore", "saved.zip", "--force").code == 0
    assert keys(spindle) == ["k1"]


def test_a_lost_key_is_said(filled: Workspace, spindle: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = Secret("value", "a.b", b"sealed by nobody", "a")
    in_store(filled, lambda store: store.save_secret(secret))
    spindle("backup", "saved.zip")
    done = spindle("restore", "saved.zip", "--force")
    assert done.code == 0
    assert "cannot be opened with the key" in done.err


def test_postgres_and_memory_have_none(filled: Workspace, spindle: Run) -> None:
    filled.write("spindle.toml", 'store = "postgresql://me:secret@db.example/shop?schema=s1"\n')
    done = spindle("backup", "saved.zip")
    assert (done.code, "pg_dump" in done.err, "s1" in done.err, "secret" in done.err) == (
        2,
        True,
        True,
        False,
    )
    filled.write("spindle.toml", 'store = ":memory:"\n')
    assert "in memory" in spindle("restore", "saved.zip").err


# --- hostile ones


def rewritten(change: Callable[[dict[str, bytes], dict[str, Any]], None]) -> None:
    """Writes `bad.zip`: the backup with something else in it, and a manifest that says so."""
    with zipfile.ZipFile("saved.zip") as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(content.pop("manifest.json"))
    change(content, manifest)
    for name, data in content.items():
        known = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        manifest["members"].setdefault(name, known)
        if manifest["members"][name] is not None and manifest.get("right", True):
            manifest["members"][name] = known
    manifest.pop("right", None)
    with zipfile.ZipFile("bad.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            archive.writestr(name, data)
        archive.writestr("manifest.json", json.dumps(manifest))


def with_database(work: str) -> Callable[[dict[str, bytes], dict[str, Any]], None]:
    def change(content: dict[str, bytes], _manifest: dict[str, Any]) -> None:
        Path("other.db").write_bytes(content["state.db"])
        with sqlite3.connect("other.db") as db:
            db.executescript(work)
        db.close()
        content["state.db"] = Path("other.db").read_bytes()

    return change


def traversal(content: dict[str, bytes], _manifest: dict[str, Any]) -> None:
    content["files/../../../evil.txt"] = b"evil"


def absolute(content: dict[str, bytes], _manifest: dict[str, Any]) -> None:
    content["/tmp/evil.txt"] = b"evil"


def program(content: dict[str, bytes], _manifest: dict[str, Any]) -> None:
    content["files/run.sh"] = b"evil"


def wrong_name(content: dict[str, bytes], _manifest: dict[str, Any]) -> None:
    content[f"files/{'0' * 32}.png"] = b"evil"


def changed(content: dict[str, bytes], manifest: dict[str, Any]) -> None:
    content[f"files/{NAME}"] = b"y" * 1000
    manifest["right"] = False


def bomb(content: dict[str, bytes], _manifest: dict[str, Any]) -> None:
    data = b"\0" * 120_000_000
    content[f"files/{hashlib.sha256(data).hexdigest()[:32]}.bin"] = data


def newer(_content: dict[str, bytes], manifest: dict[str, Any]) -> None:
    manifest["schema"] = 9999


def lying(_content: dict[str, bytes], manifest: dict[str, Any]) -> None:
    manifest["schema"] -= 1


def half(content: dict[str, bytes], _manifest: dict[str, Any]) -> None:
    content["state.db"] = content["state.db"][: len(content["state.db"]) // 2]


def odd_manifest(_content: dict[str, bytes], manifest: dict[str, Any]) -> None:
    manifest["made_at"] = "yesterday"


TRIGGER = "CREATE TRIGGER evil AFTER INSERT ON calls BEGIN DELETE FROM runs; END"
HOSTILE = {
    "a path out of it": (traversal, "does not belong there"),
    "an absolute path": (absolute, "does not belong there"),
    "a program": (program, "does not belong there"),
    "a file under a wrong name": (wrong_name, "wrong name"),
    "a changed file": (changed, "damaged"),
    "a bomb": (bomb, "far more"),
    "a newer version": (newer, "newer Spindle"),
    "a version that is a lie": (lying, "another version"),
    "half a database": (half, "database"),
    "a trigger": (with_database(TRIGGER), "not one of Spindle's"),
    "another table": (with_database("CREATE TABLE evil (x)"), "not one of Spindle's"),
    "a manifest of nonsense": (odd_manifest, "manifest"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_backup_changes_nothing(what: str, filled: Workspace, spindle: Run) -> None:
    spindle("backup", "saved.zip")
    change, said = HOSTILE[what]
    rewritten(change)
    before = {path for path in filled.root.parent.rglob("*") if "state.db" not in path.name}
    done = spindle("restore", "bad.zip", "--force")
    assert (done.code, said in done.err) == (2, True), done.err
    assert {path for path in filled.root.parent.rglob("*") if "state.db" not in path.name} == before
    assert keys(spindle) == ["k1"]


def test_links_and_what_is_no_zip_are_refused(filled: Workspace, spindle: Run) -> None:
    spindle("backup", "saved.zip")
    with zipfile.ZipFile("saved.zip") as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile("link.zip", "w") as archive:
        for name, data in content.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = ((stat.S_IFLNK if name.startswith("files/") else stat.S_IFREG) | 0o777) << 16
            archive.writestr(info, data)
    assert "no file" in spindle("restore", "link.zip").err
    whole = Path("saved.zip").read_bytes()
    for name, data in (("text.zip", b"hello"), ("half.zip", whole[: len(whole) // 2]), ("empty.zip", b"")):
        Path(name).write_bytes(data)
        done = spindle("restore", name)
        assert (done.code, "not a backup" in done.err) == (2, True), done.err
    assert spindle("restore", "missing.zip").code == 2
    os.mkfifo("pipe")
    assert "there is no file" in spindle("restore", "pipe").err
    assert keys(spindle) == ["k1"]
