"""Several processes at work in one schema of one database."""

from __future__ import annotations

from processes import kill, outputs, processes

from servers.postgres import PostgresServer
from spindle.stores.postgres import PostgresStore
from spindle.stores.postgres.migrate import migrations


async def test_several_processes_may_create_the_schema_at_the_same_time(postgres_url: str) -> None:
    with processes(*[(postgres_url, "open")] * 6) as running:
        assert outputs(running) == [["done"]] * 6
    async with PostgresStore(postgres_url) as store:
        assert await store.catalog_version() == 0


async def test_processes_that_write_at_once_lose_nothing(postgres_url: str) -> None:
    names = ["a", "b", "c", "d"]
    with processes(*[(postgres_url, "save", name, "200") for name in names]) as running:
        outputs(running)
    async with PostgresStore(postgres_url) as store:
        saved = [record.key for record in await store.calls(limit=10_000)]
    assert sorted(saved) == sorted(f"{name}-{number:06}" for name in names for number in range(200))


async def test_processes_that_sync_and_record_at_once_each_leave_their_last(postgres_url: str) -> None:
    syncs = [(postgres_url, "sync", name, "50") for name in ("a", "b", "c")]
    with processes(*syncs, (postgres_url, "save", "k", "100")) as running:
        outputs(running)
    async with PostgresStore(postgres_url) as store:
        assert await store.names() == ["a.tool0", "b.tool0", "c.tool0"]
        assert await store.catalog_version() == 150
        assert len(await store.search("tool0", 10)) == 3
        assert len(await store.calls(limit=1000)) == 100


async def test_processes_that_sync_one_source_at_once_take_turns(postgres_url: str) -> None:
    with processes(*[(postgres_url, "sync", "a", "40")] * 3) as running:
        outputs(running)
    async with PostgresStore(postgres_url) as store:
        assert await store.names() == ["a.tool4"]
        assert await store.catalog_version() == 120


async def test_what_was_saved_survives_the_killing_of_the_process(postgres_url: str) -> None:
    with processes((postgres_url, "save", "k", "1000000")) as [process]:
        assert process.stdout is not None
        saved = [process.stdout.readline().strip() for _ in range(150)]
        kill(process)
        saved += process.stdout.read().split()
    async with PostgresStore(postgres_url) as store:
        found = {record.key for record in await store.calls(limit=1_000_000)}
    assert len(saved) >= 150
    assert set(saved) <= found


async def test_a_killed_sync_leaves_the_old_tools_or_the_new(postgres_url: str) -> None:
    with processes((postgres_url, "sync", "a", "1000000"), (postgres_url, "save", "k", "40")) as [sync, save]:
        assert save.stdout is not None
        assert save.stdout.read().split()[-1] == "done"
        kill(sync)
    async with PostgresStore(postgres_url) as store:
        names = await store.names()
        assert len(names) <= 1
        assert [summary.name for summary in await store.search("tool", 10)] == names
        # The killed one's transaction holds nothing up.
        await store.forget_source("a")
        assert await store.names() == []


async def test_each_schema_is_a_workspace_of_its_own(postgres_server: PostgresServer) -> None:
    urls = [postgres_server.url(schema=name) for name in ("shop_one", "shop_two", "user")]
    with processes(
        *[(url, "sync", "a", str(count)) for url, count in zip(urls, (1, 2, 3), strict=True)]
    ) as all_:
        outputs(all_)
    for count, url in enumerate(urls, start=1):
        async with PostgresStore(url) as store:
            assert await store.names() == [f"a.tool{count - 1}"]
            assert await store.catalog_version() == count
    versions = postgres_server.execute("SELECT value FROM shop_one.meta WHERE key = 'schema_version'")
    assert versions == [(len(migrations()),)]
