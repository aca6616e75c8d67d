"""What a PostgreSQL store does when its server, the way to it, or its rights are not as they should be."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
import signal
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import cast
from urllib.parse import quote

import psycopg
import pytest

import spindle
from servers.postgres import PASSWORD, PostgresServer, free_port, running_server
from servers.running import until
from spindle.domain.call import CallRecord
from spindle.domain.identity import LOCAL, Secret
from spindle.domain.run import Pause, Run, RunEvent, RunStatus
from spindle.domain.tool import Tool, ToolSpec
from spindle.errors import StoreError
from spindle.ports.store import SourceState, StoredTool, ToolFilter
from spindle.stores.postgres import PostgresStore, connection, migrate


def a_record(key: str) -> CallRecord:
    return CallRecord(key, "a.b", "a", "local", {"n": 1}, "ok", 1.0, 0.1, 1)


def a_sync(name: str = "a.tool") -> tuple[SourceState, list[StoredTool]]:
    spec = ToolSpec(name.partition(".")[2], "does things")
    return SourceState("a", "mcp", "s", 1.0), [StoredTool(name, Tool(name, "a", "mcp", spec, "f"))]


async def failure(url: str) -> StoreError:
    with pytest.raises(StoreError) as caught:
        await PostgresStore(url).open()
    told = repr(caught.value.to_dict()) + str(caught.value)
    assert PASSWORD not in told
    assert quote(PASSWORD, safe="") not in told
    return caught.value


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    async with PostgresStore(postgres_url) as opened:
        yield opened


@pytest.fixture
def schema(store: PostgresStore) -> str:
    return store._db.address.schema


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server that the test may stop."""
    with running_server() as server:
        yield server


@pytest.fixture
def role(postgres_server: PostgresServer) -> Callable[..., tuple[str, str]]:
    """Make a user with these rights: (name, address of a store that does not exist yet)."""

    def make(rights: str = "", **query: str) -> tuple[str, str]:
        name = f"user_{uuid.uuid4().hex[:12]}"
        postgres_server.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'pw-{name}' {rights}")
        query = {"schema": f"of_{name}", **query}
        return name, postgres_server.url(user=name, password=f"pw-{name}", **query)

    return make


def backends(server: PostgresServer, name: str, state: str = "%") -> list[int]:
    """The server's processes for the store of this schema, whose connections have the same name."""
    query = "SELECT pid FROM pg_stat_activity WHERE application_name = %s AND state LIKE %s"
    return [pid for (pid,) in server.execute(query, (name, state))]


# --- at the start


async def test_a_server_that_is_down_is_named_with_host_port_and_database() -> None:
    port = free_port()
    error = await failure(f"postgresql://ann:{quote(PASSWORD, safe='')}@127.0.0.1:{port}/tools")
    assert error.message.startswith(
        f"cannot connect to postgresql://ann@127.0.0.1:{port}/tools?schema=spindle"
    )
    assert "refused" in error.message
    assert error.hint == "start the server, or correct host and port in `store`"


async def test_a_wrong_password_says_so(postgres_server: PostgresServer) -> None:
    error = await failure(postgres_server.url(password=PASSWORD + "x"))
    assert "password authentication failed" in error.message
    assert error.hint == "correct user and password in `store`"


async def test_a_missing_password_says_so(postgres_server: PostgresServer) -> None:
    error = await failure(f"postgresql://postgres@127.0.0.1:{postgres_server.port}/postgres?passfile=/none")
    assert "no password supplied" in error.message
    assert "${PASSWORD}" in (error.hint or "")


async def test_a_missing_database_says_so(postgres_server: PostgresServer) -> None:
    error = await failure(postgres_server.url("no_such_database"))
    assert '"no_such_database" does not exist' in error.message
    assert "createdb" in (error.hint or "")


@contextlib.asynccontextmanager
async def odd_server(greeting: bytes) -> AsyncIterator[int]:
    """Says this, and hangs up; or says nothing, for as long as it is there."""
    served: list[asyncio.Task[None]] = []
    is_over = asyncio.Event()

    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(cast("asyncio.Task[None]", asyncio.current_task()))
        with contextlib.suppress(ConnectionError):
            writer.write(greeting)
            if not greeting:
                await is_over.wait()
            writer.close()
            await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()
    is_over.set()
    await asyncio.gather(*served)


async def test_a_server_that_says_nothing_is_given_up() -> None:
    async with odd_server(b"") as port:
        error = await failure(f"postgresql://ann@127.0.0.1:{port}/tools?connect_timeout=2")
    assert "timeout" in error.message
    assert "reachable" in (error.hint or "")


async def test_something_else_than_a_database_server_is_an_error() -> None:
    async with odd_server(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        error = await failure(f"postgresql://ann@127.0.0.1:{port}/tools")
    assert error.message.startswith("cannot connect to ")


async def test_too_many_connections_are_an_error_that_says_what_to_do(
    role: Callable[..., tuple[str, str]], postgres_server: PostgresServer
) -> None:
    name, url = role("CONNECTION LIMIT 1")
    with postgres_server.connect(user=name):
        error = await failure(url)
    assert "too many connections" in error.message
    assert "pool_size" in (error.hint or "")


async def test_a_full_server_is_an_error_that_says_what_to_do() -> None:
    with running_server(max_connections=2, superuser_reserved_connections=0, autovacuum="off") as server:
        with server.connect(), server.connect():
            error = await failure(server.url())
        assert "pool_size" in (error.hint or ""), error.message


async def test_a_user_who_may_not_create_a_schema_is_told(role: Callable[..., tuple[str, str]]) -> None:
    _, url = role()
    error = await failure(url)
    assert "permission denied" in error.message
    assert error.hint == "give the user the right to use the schema and what is in it"


async def test_a_user_who_was_given_a_schema_needs_no_right_to_create_one(
    role: Callable[..., tuple[str, str]], postgres_server: PostgresServer
) -> None:
    name, url = role()
    postgres_server.execute(f"CREATE SCHEMA of_{name} AUTHORIZATION {name}")
    async with PostgresStore(url) as store:
        await store.replace_tools(*a_sync())
        assert await store.names() == ["a.tool"]


async def test_a_replica_is_refused(
    role: Callable[..., tuple[str, str]], postgres_server: PostgresServer
) -> None:
    name, url = role()
    postgres_server.execute(f"ALTER ROLE {name} SET default_transaction_read_only = on")
    error = await failure(url)
    assert error.hint == "the database takes no changes; use the primary server, not a replica"


async def test_a_database_that_cannot_hold_every_text_is_refused(postgres_server: PostgresServer) -> None:
    postgres_server.execute("CREATE DATABASE ascii ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
    error = await failure(postgres_server.url("ascii"))
    assert "SQL_ASCII" in error.message
    assert "createdb -E UTF8" in (error.hint or "")


async def test_a_state_of_a_newer_version_is_refused(
    store: PostgresStore, schema: str, postgres_url: str, postgres_server: PostgresServer
) -> None:
    postgres_server.execute(f"UPDATE {schema}.meta SET value = 99 WHERE key = 'schema_version'")
    error = await failure(postgres_url)
    assert "newer Spindle (version 99" in error.message
    assert "upgrade" in (error.hint or "")


async def test_a_schema_that_holds_something_else_is_refused(
    postgres_url: str, postgres_server: PostgresServer
) -> None:
    schema = postgres_url.rpartition("=")[2]
    postgres_server.execute(f"CREATE SCHEMA {schema}")
    postgres_server.execute(f"CREATE TABLE {schema}.meta (colour text)")
    error = await failure(postgres_url)
    assert "?schema=" in (error.hint or "")
    assert postgres_server.execute(f"SELECT count(*) FROM {schema}.meta") == [(0,)]


async def test_a_migration_that_fails_leaves_nothing_behind(
    postgres_url: str, postgres_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "0099_broken.sql"
    broken.write_text("CREATE TABLE later (x int);\nCREATE TABLE wrong (;\n")
    known = migrate.migrations()
    monkeypatch.setattr(migrate, "migrations", lambda: [*known, broken])
    await failure(postgres_url)
    schema = postgres_url.rpartition("=")[2]
    assert postgres_server.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)) == []
    monkeypatch.undo()
    async with PostgresStore(postgres_url) as store:
        assert await store.names() == []


async def test_a_later_migration_is_applied_to_what_is_there(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with PostgresStore(postgres_url) as store:
        await store.save_call(a_record("k"))
    later = tmp_path / "0099_later.sql"
    later.write_text("ALTER TABLE calls ADD COLUMN later int;")
    known = migrate.migrations()
    monkeypatch.setattr(migrate, "migrations", lambda: [*known, later])
    async with PostgresStore(postgres_url) as store:
        assert await store.call("k") == a_record("k")
        rows = await store._db.rows("SELECT later FROM {schema}.calls")
        assert rows == [(None,)]


# --- on the way


async def end_backends(server: PostgresServer, schema: str) -> None:
    pids = backends(server, schema)
    assert pids
    server.execute("SELECT pg_terminate_backend(pid, 10000) FROM unnest(%s) AS pid", (pids,))


@pytest.mark.parametrize("work", ["read", "sync", "record", "cache"])
async def test_after_its_connection_was_ended_the_next_call_works(
    store: PostgresStore, schema: str, postgres_server: PostgresServer, work: str
) -> None:
    await store.replace_tools(*a_sync())
    await end_backends(postgres_server, schema)
    if work == "read":
        assert await store.names() == ["a.tool"]
    elif work == "sync":
        await store.replace_tools(*a_sync("a.other"))
        assert await store.names() == ["a.other"]
    elif work == "record":
        await store.save_call(a_record("k"))
        assert await store.call("k") == a_record("k")
    else:
        assert await store.clear_cache() == 0


async def test_work_whose_connection_is_ended_in_the_middle_is_done_again(
    store: PostgresStore, schema: str, postgres_server: PostgresServer
) -> None:
    with postgres_server.connect() as blocker, blocker.transaction():
        blocker.execute(f"LOCK TABLE {schema}.meta".encode())
        sync = asyncio.create_task(store.replace_tools(*a_sync()))
        version = asyncio.create_task(store.catalog_version())
        await until(lambda: len(backends(postgres_server, schema, "active")) == 2)
        await end_backends(postgres_server, schema)
        await until(lambda: len(backends(postgres_server, schema, "active")) == 2)
    await sync
    assert await version in (0, 1)
    assert await store.names() == ["a.tool"]
    assert await store.catalog_version() == 1


class Proxy:
    """Stands between a store and its server, and hangs up in place of passing on one of its answers."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.loses_answer_to: bytes | None = None
        """The answer to the next message that has this in it."""
        self._loses_next = False
        self._served: list[asyncio.Task[None]] = []

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self._server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._served.append(cast("asyncio.Task[None]", asyncio.current_task()))
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self._port)
        forth = asyncio.create_task(self._pass_questions(reader, inner_writer))
        while data := await inner_reader.read(65536):
            if self._loses_next:
                self._loses_next = False
                break
            writer.write(data)
            await writer.drain()
        forth.cancel()
        for each in (writer, inner_writer):
            each.close()
            with contextlib.suppress(ConnectionError):
                await each.wait_closed()

    async def _pass_questions(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if self.loses_answer_to is not None and self.loses_answer_to in data:
                self.loses_answer_to, self._loses_next = None, True
            writer.write(data)
            await writer.drain()
        writer.close()

    async def stop(self) -> None:
        self._server.close()
        await asyncio.gather(*self._served)


@pytest.fixture
async def proxy(postgres_server: PostgresServer) -> AsyncIterator[tuple[Proxy, int]]:
    made = Proxy(postgres_server.port)
    yield made, await made.start()
    await made.stop()


@pytest.fixture
async def distant(
    proxy: tuple[Proxy, int], postgres_server: PostgresServer, postgres_url: str
) -> AsyncIterator[PostgresStore]:
    """The same store, through the proxy."""
    async with PostgresStore(postgres_url.replace(f":{postgres_server.port}/", f":{proxy[1]}/")) as opened:
        yield opened


async def test_a_record_whose_answer_is_lost_is_there_once(
    proxy: tuple[Proxy, int], distant: PostgresStore, store: PostgresStore
) -> None:
    await distant.save_call(a_record("first"))
    proxy[0].loses_answer_to = b"second"
    await distant.save_call(a_record("second"))
    assert proxy[0].loses_answer_to is None
    assert [record.key for record in await store.calls(limit=10)] == ["second", "first"]


async def test_a_sync_whose_answer_is_lost_is_done_again(
    proxy: tuple[Proxy, int], distant: PostgresStore, store: PostgresStore
) -> None:
    proxy[0].loses_answer_to = b"COMMIT"
    await distant.replace_tools(*a_sync())
    assert proxy[0].loses_answer_to is None
    assert await store.names() == ["a.tool"]
    assert await store.catalog_version() == 2


@pytest.mark.parametrize(("status", "expected"), [("paused", "claimed"), ("running", "noted")])
async def test_an_answer_to_a_pause_is_taken_once_though_the_server_s_is_lost(
    proxy: tuple[Proxy, int], distant: PostgresStore, store: PostgresStore, status: RunStatus, expected: str
) -> None:
    run = Run("shop.order", status=status, owner="other", lease=99.0, id="r1")
    pause = Pause("t1", "r1", "0", "approval", "May I?", LOCAL, 1.0)
    await store.save_run(run, [RunEvent("r1", "paused", 1.0)], [pause])
    proxy[0].loses_answer_to = b"COMMIT"
    assert await distant.claim("t1", b"sealed yes", "me", 60.0, 10.0) == expected
    assert proxy[0].loses_answer_to is None
    assert await store.claim("t1", b"sealed no", "you", 60.0, 10.0) == "used"
    found = await store.run("r1")
    assert found is not None
    assert found.owner == ("me" if expected == "claimed" else "other")


async def test_a_run_and_its_events_are_saved_once_though_the_answer_is_lost(
    proxy: tuple[Proxy, int], distant: PostgresStore, store: PostgresStore
) -> None:
    run = Run("shop.order", owner="me", id="r1")
    events = [RunEvent("r1", "step", float(number), f"/{number}") for number in range(3)]
    done = dataclasses.replace(run, status="done", updated_at=3.0)
    proxy[0].loses_answer_to = b"shop.order"
    assert await distant.save_run(run, events[:2])
    assert proxy[0].loses_answer_to is None
    proxy[0].loses_answer_to = b"/2"
    assert await distant.save_events(run, [events[2]])
    assert proxy[0].loses_answer_to is None
    proxy[0].loses_answer_to = b"shop.order"
    assert await distant.save_run(done)
    assert proxy[0].loses_answer_to is None
    assert await store.history("r1") == events
    assert await store.run("r1") == done


async def test_a_dead_owner_s_run_is_taken_though_the_answer_is_lost(
    proxy: tuple[Proxy, int], distant: PostgresStore, store: PostgresStore
) -> None:
    await store.save_run(Run("shop.order", status="running", owner="dead", lease=0.0, id="r1"))
    proxy[0].loses_answer_to = b"COMMIT"
    assert await distant.take_run("r1", "me", 60.0, 10.0)
    assert not await store.take_run("r1", "you", 60.0, 10.0)


async def test_whether_a_secret_was_used_is_never_guessed(
    proxy: tuple[Proxy, int], distant: PostgresStore, store: PostgresStore
) -> None:
    secret = Secret("pending", "state", b"sealed")
    used = dataclasses.replace(secret, used=True)
    await store.save_secret(secret)
    proxy[0].loses_answer_to = b"COMMIT"
    with pytest.raises(StoreError):
        await distant.swap_secret(secret, used)
    assert await store.secret("pending", "state") == used
    assert not await distant.swap_secret(secret, used)
    proxy[0].loses_answer_to = b"COMMIT"
    with pytest.raises(StoreError):
        await distant.delete_secret("pending", "state")
    assert not await distant.delete_secret("pending", "state")


async def test_a_restarted_server_is_found_again(own_server: PostgresServer) -> None:
    async with PostgresStore(own_server.url()) as store:
        await store.replace_tools(*a_sync())
        await asyncio.gather(*(store.names() for _ in range(4)))
        own_server.restart()
        assert await store.names() == ["a.tool"]
        await store.save_call(a_record("k"))
        own_server.stop()
        for attempt in (store.names, store.catalog_version, lambda: store.save_call(a_record("x"))):
            with pytest.raises(StoreError, match="refused") as caught:
                await attempt()
            assert PASSWORD not in str(caught.value)
        own_server.start()
        assert [record.key for record in await store.calls(limit=5)] == ["k"]


async def test_what_was_recorded_survives_a_crash_of_the_server(own_server: PostgresServer) -> None:
    async with PostgresStore(own_server.url()) as store:
        for number in range(20):
            await store.save_call(a_record(f"k{number}"))
        own_server.stop(signal.SIGQUIT)
        own_server.start()
        assert len(await store.calls(limit=100)) == 20


async def test_a_server_one_of_whose_processes_was_killed_is_waited_for(
    own_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # How long the recovery takes is the machine's business.
    monkeypatch.setattr(connection, "START_PATIENCE", 60.0)
    monkeypatch.setattr(connection, "STATEMENT_TIMEOUT", 60.0)
    async with PostgresStore(own_server.url(application_name="killed")) as store:
        await store.replace_tools(*a_sync())
        await store.save_call(a_record("before"))
        for pid in backends(own_server, "killed"):
            os.kill(pid, signal.SIGKILL)
        # The server ends all sessions and recovers, as after a crash.
        assert await store.names() == ["a.tool"]
        await store.save_call(a_record("after"))
        assert [record.key for record in await store.calls(limit=5)] == ["after", "before"]


async def test_a_lock_held_elsewhere_is_waited_for_but_not_for_ever(
    store: PostgresStore, schema: str, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "LOCK_TIMEOUT", 0.2)
    with postgres_server.connect() as blocker, blocker.transaction():
        blocker.execute(f"UPDATE {schema}.meta SET value = value".encode())
        with pytest.raises(StoreError, match="lock timeout") as caught:
            await store.replace_tools(*a_sync())
        # Readers, and records of calls, wait for nobody.
        assert await store.catalog_version() == 0
        await store.save_call(a_record("k"))
    assert caught.value.hint == "another process holds a lock; try again"
    await store.replace_tools(*a_sync())
    assert await store.names() == ["a.tool"]


async def test_a_statement_that_takes_too_long_is_given_up(
    store: PostgresStore, schema: str, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.names()
    monkeypatch.setattr(connection, "STATEMENT_TIMEOUT", 0.3)
    with postgres_server.connect() as blocker, blocker.transaction():
        blocker.execute(f"LOCK TABLE {schema}.tools".encode())
        with pytest.raises(StoreError, match=r"did not answer within 0\.3 s") as caught:
            await store.names()
        # It was cancelled on the server too.
        await until(lambda: backends(postgres_server, schema, "active") == [])
    monkeypatch.undo()
    assert caught.value.hint
    assert await store.names() == []


async def test_a_server_that_stands_still_is_given_up(
    store: PostgresStore, schema: str, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.names()
    [pid] = backends(postgres_server, schema)
    monkeypatch.setattr(connection, "STATEMENT_TIMEOUT", 0.3)
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(StoreError, match="did not answer"):
            await store.names()
    finally:
        os.kill(pid, signal.SIGCONT)
    monkeypatch.undo()
    assert await store.names() == []


async def test_a_process_that_falls_silent_holds_nobody_up_for_long(
    store: PostgresStore, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "SILENCE_TIMEOUT", 1.0)
    has_the_lock, may_go_on = asyncio.Event(), asyncio.Event()

    async def fall_silent(it: connection.Statements) -> None:
        await it.change("UPDATE {schema}.meta SET value = value")
        has_the_lock.set()
        await may_go_on.wait()
        await it.rows("SELECT 1")

    silent = asyncio.create_task(store._db.transaction(fall_silent))
    await has_the_lock.wait()
    monkeypatch.undo()
    async with PostgresStore(postgres_url) as other:
        await other.replace_tools(*a_sync())
    may_go_on.set()
    await asyncio.gather(silent, return_exceptions=True)
    assert await store.names() == ["a.tool"]


async def test_a_migration_elsewhere_is_waited_for_but_not_for_ever(
    postgres_url: str, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "LOCK_TIMEOUT", 0.2)
    schema = postgres_url.rpartition("=")[2]
    with postgres_server.connect() as blocker:
        key = f"spindle.migrate.{schema}"
        blocker.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", (key,))
        error = await failure(postgres_url)
    assert "lock timeout" in error.message
    async with PostgresStore(postgres_url) as store:
        assert await store.names() == []


async def test_no_more_connections_are_made_than_allowed(
    postgres_server: PostgresServer, store: PostgresStore, schema: str, postgres_url: str
) -> None:
    assert await store.names() == []
    async with PostgresStore(f"{postgres_url}&pool_size=2") as small:
        await asyncio.gather(*(small.tools(ToolFilter(tag=f"t{number}")) for number in range(60)))
        made = len(backends(postgres_server, schema)) - 1
    assert 1 <= made <= 2


async def test_a_connection_that_was_idle_for_long_is_replaced(
    store: PostgresStore, schema: str, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.names()
    before = backends(postgres_server, schema)
    monkeypatch.setattr(connection, "IDLE_LIMIT", -1.0)
    await store.names()
    monkeypatch.undo()
    await until(lambda: backends(postgres_server, schema) != before)
    assert len(backends(postgres_server, schema)) == 1


# --- records


async def test_a_record_whose_saver_gave_up_is_kept(store: PostgresStore) -> None:
    saving = asyncio.create_task(store.save_call(a_record("k")))
    await asyncio.sleep(0)
    saving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await saving
    await store.save_call(a_record("later"))
    assert await store.call("k") == a_record("k")


async def test_records_that_wait_are_written_before_the_store_closes(postgres_url: str) -> None:
    store = await PostgresStore(postgres_url).open()
    saving = [asyncio.create_task(store.save_call(a_record(f"k{number}"))) for number in range(600)]
    await asyncio.sleep(0)
    await store.close()
    assert await asyncio.gather(*saving) == [None] * 600
    async with PostgresStore(postgres_url) as again:
        assert len(await again.calls(limit=1000)) == 600


async def test_records_that_wait_together_share_a_transaction(
    store: PostgresStore, schema: str, postgres_server: PostgresServer
) -> None:
    await asyncio.gather(*(store.save_call(a_record(f"k{number}")) for number in range(200)))
    [[transactions]] = postgres_server.execute(f"SELECT count(DISTINCT xmin::text) FROM {schema}.calls")
    assert transactions <= 2


async def test_a_call_returns_its_result_though_it_cannot_be_recorded(
    own_server: PostgresServer, tmp_path: Path
) -> None:
    (tmp_path / "spindle.toml").touch()
    store, notes = await PostgresStore(own_server.url()).open(), list[str]()

    def stop_the_server() -> str:
        own_server.stop()
        return "done"

    async with spindle.open(tmp_path, tools=[stop_the_server], store=store, note=notes.append) as app:
        result = await app.call("stop_the_server")
    assert result.text == "done"
    assert any("could not be recorded" in note for note in notes)
    assert not any(PASSWORD in note for note in notes)


# --- secrets


async def test_the_password_is_in_no_log(
    own_server: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with PostgresStore(own_server.url()) as store:
        await store.names()
        own_server.stop()
        with contextlib.suppress(StoreError):
            await store.names()
    assert PASSWORD not in caplog.text
    assert quote(PASSWORD, safe="") not in caplog.text


def test_the_driver_is_the_one_we_think() -> None:
    """Bounded waits after a cancelled statement came with this version."""
    assert tuple(map(int, psycopg.__version__.split(".")[:2])) >= (3, 3)
