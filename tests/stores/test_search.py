from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tool_set import tools

from servers.examples import examples
from servers.postgres import PostgresServer
from spindle.domain.definitions import Definitions
from spindle.domain.tool import Tool, ToolSpec
from spindle.ports.store import SourceState, Store, StoredTool
from spindle.stores.postgres import PostgresStore
from spindle.stores.search_index import words
from spindle.stores.sqlite import SqliteStore
from spindle.stores.synonyms import FILE, synonyms


async def fill(store: Store, listed: list[Tool]) -> None:
    by_source: dict[str, list[StoredTool]] = {}
    for tool in listed:
        by_source.setdefault(tool.source, []).append(StoredTool(tool.name, tool))
    for source, stored in by_source.items():
        await store.replace_tools(SourceState(source, "mcp", "", 1.0), stored)


@pytest.fixture(params=["sqlite", "postgres"])
async def empty(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    kind = request.param
    made = (
        PostgresStore(request.getfixturevalue("postgres_url"))
        if kind == "postgres"
        else SqliteStore(":memory:")
    )
    async with made as store:
        yield store


@pytest.fixture(scope="session")
def filled_postgres(postgres_server: PostgresServer) -> str:
    """The address of a catalog that no test changes."""

    async def make() -> None:
        async with PostgresStore(url) as store:
            await fill(store, tools())

    url = postgres_server.url(schema="filled")
    asyncio.run(make())
    return url


@pytest.fixture(params=["sqlite", "postgres"])
def filled(request: pytest.FixtureRequest) -> str | None:
    return request.getfixturevalue("filled_postgres") if request.param == "postgres" else None


@pytest.fixture
async def catalog(filled: str | None) -> AsyncIterator[Store]:
    if filled is not None:
        async with PostgresStore(filled) as store:
            yield store
    else:
        async with SqliteStore(":memory:") as store:
            await fill(store, tools())
            yield store


async def names(store: Store, query: str, limit: int = 10) -> list[str]:
    return [summary.name for summary in await store.search(query, limit)]


def test_the_set_of_tools_is_large_enough_to_say_something() -> None:
    assert len(tools()) >= 60


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("create issue", "github.create_issue"),
        ("comment on an issue", "github.add_issue_comment"),
        ("merge pull request", "github.merge_pull_request"),
        ("merge pr", "github.merge_pull_request"),
        ("review a pull request", "github.create_pull_request_review"),
        ("search code", "github.search_code"),
        ("find repositories", "github.search_repositories"),
        ("upload several files in one commit", "github.push_files"),
        ("new branch", "github.create_branch"),
        ("fork", "github.fork_repository"),
        ("getting the latest commits", "github.list_commits"),
        ("read a file", "filesystem.read_text_file"),
        ("read image", "filesystem.read_media_file"),
        ("rename a file", "filesystem.move_file"),
        ("write to a file", "filesystem.write_file"),
        ("edit text file", "filesystem.edit_file"),
        ("list the files in a folder", "filesystem.list_directory"),
        ("file size", "filesystem.get_file_info"),
        ("send a message to slack", "slack.post_message"),
        ("reply in a thread", "slack.reply_to_thread"),
        ("emoji reaction", "slack.add_reaction"),
        ("users of the workspace", "slack.get_users"),
        ("slack channels", "slack.list_channels"),
        ("what time is it in tokyo", "time.get_current_time"),
        ("convert timezone", "time.convert_time"),
        ("commit changes", "git.git_commit"),
        ("switch branch", "git.git_checkout"),
        ("git log", "git.git_log"),
        ("sql query", "postgres.query"),
        ("run select statement", "sqlite.read_query"),
        ("delete entities", "memory.delete_entities"),
        ("take a screenshot", "browser.browser_take_screenshot"),
        ("address to coordinates", "maps.maps_geocode"),
        ("directions from a to b", "maps.maps_directions"),
        ("schedule an event in my calendar", "calendar.createEvent"),
        ("send email", "gmail.sendEmail"),
        ("weather forecast", "weather.getForecast"),
        ("create a ticket", "jira.createTicket"),
        ("refund a payment", "stripe.create_refund"),
        ("create a page in notion", "notion.API-create-a-page"),
        # by a parameter
        ("attendees", "calendar.createEvent"),
        # as names are written
        ("read_text_file", "filesystem.read_text_file"),
        ("readTextFile", "filesystem.read_text_file"),
        ("createEvent", "calendar.createEvent"),
        ("create event", "calendar.createEvent"),
        ("create_event", "calendar.createEvent"),
        ("filesystem.read_text_file", "filesystem.read_text_file"),
        ("API-post-search", "notion.API-post-search"),
    ],
)
async def test_the_right_tool_is_among_the_first_three(catalog: Store, query: str, expected: str) -> None:
    assert expected in (await names(catalog, query))[:3]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("scr", "browser.browser_take_screenshot"),
        ("screensh", "browser.browser_take_screenshot"),
        ("fore", "weather.getForecast"),
        ("merge pul", "github.merge_pull_request"),
        ("conv ti", "time.convert_time"),
        ("geoc", "maps.maps_geocode"),
    ],
)
async def test_a_tool_is_found_while_its_name_is_typed(catalog: Store, typed: str, expected: str) -> None:
    assert (await names(catalog, typed))[0] == expected


async def test_a_name_that_is_typed_whole_comes_first(catalog: Store) -> None:
    assert (await names(catalog, "query"))[0] == "postgres.query"
    assert (await names(catalog, "FETCH"))[0] == "fetch.fetch"


async def test_tools_with_all_words_come_before_tools_with_some(catalog: Store) -> None:
    found = await names(catalog, "github issue")
    assert all(name.startswith("github") and "issue" in name for name in found[:4])
    assert len(found) == 10


async def test_the_limit_is_kept(catalog: Store) -> None:
    assert len(await names(catalog, "file", 2)) == 2
    assert await names(catalog, "file", 0) == []


@pytest.mark.parametrize("query", ["", "   ", '"', "🎉", "*", "()", "'; --", "\x00", ". , -"])
async def test_a_query_without_words_finds_nothing(catalog: Store, query: str) -> None:
    assert await names(catalog, query) == []


@pytest.mark.parametrize(
    "query",
    [
        'issue" OR "x', "issue AND", "NOT issue", "issue NEAR(create)", "name: issue", "{name}: issue",
        "issue*", "^issue", "(issue", "issue -create", "issue + create", "'issue'", 'issue "',
    ],
)  # fmt: skip
async def test_operators_are_only_punctuation(catalog: Store, query: str) -> None:
    assert any("issue" in name for name in (await names(catalog, query))[:4])


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("creat isue", "github.create_issue"),
        ("forcast", "weather.getForecast"),
        ("screenshto", "browser.browser_take_screenshot"),
        ("gecode an address", "maps.maps_geocode"),
    ],
)
async def test_a_slip_of_the_finger_does_not_matter(catalog: Store, query: str, expected: str) -> None:
    assert expected in (await names(catalog, query))[:3]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("make a folder", "filesystem.create_directory"),
        ("look up repos", "github.search_repositories"),
        ("new bug report", "jira.createTicket"),
    ],
)
async def test_other_words_for_the_same_do_as_well(catalog: Store, query: str, expected: str) -> None:
    assert expected in (await names(catalog, query))[:3]


async def test_the_words_themselves_come_before_other_words_for_them(empty: Store) -> None:
    listed = [
        Tool(f"a.{name}", "a", "mcp", ToolSpec(name, "Does it."), "f") for name in ("drop_row", "remove_row")
    ]
    await fill(empty, listed)
    assert await names(empty, "remove row") == ["a.remove_row", "a.drop_row"]
    assert await names(empty, "drop row") == ["a.drop_row", "a.remove_row"]


async def test_words_that_say_nothing_are_used_when_there_is_nothing_else(catalog: Store) -> None:
    assert await names(catalog, "the") != []


async def test_case_accents_and_word_forms_do_not_matter(empty: Store) -> None:
    spec = ToolSpec("traduire", "Traduit les résumés")
    await fill(empty, [Tool("fr.traduire", "fr", "mcp", spec, spec.fingerprint)])
    assert await names(empty, "RESUME") == ["fr.traduire"]


async def test_a_catalog_of_an_earlier_version_is_found_in_again(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "state.db") as store:
        await fill(store, tools())
        expected = {query: await names(store, query) for query in ("create issue", "forecast", "owner")}
    with contextlib.closing(sqlite3.connect(tmp_path / "state.db", isolation_level=None)) as file:
        file.execute("DROP TABLE search_words")
        file.execute("DROP TABLE pins")
        file.execute("DROP TABLE schedules")
        file.execute("DROP TABLE triggers")
        for table in ("tool_vectors", "vector_models"):
            file.execute(f"DROP TABLE {table}")
        for table in ("audit", "access_entries", "quota_use", "quota_holds"):
            file.execute(f"DROP TABLE {table}")
        file.execute("DELETE FROM meta WHERE key IN ('audit_pruned_to', 'access_version', 'vector_version')")
        file.execute("DROP INDEX secrets_by_source")
        file.execute("DROP INDEX calls_by_run")
        for column in ("result", "run", "trace"):
            file.execute(f"ALTER TABLE calls DROP COLUMN {column}")
        file.execute("DROP INDEX runs_by_queue")
        for column in ("generation", "queue", "turn", "priority", "not_before"):
            file.execute(f"ALTER TABLE runs DROP COLUMN {column}")
        file.execute("DROP INDEX run_events_of_run")
        file.execute("ALTER TABLE sources DROP COLUMN left_out")
        file.execute("CREATE VIRTUAL TABLE tool_search USING fts5 (name, tags, description, parameters)")
        file.execute("PRAGMA user_version = 3")
    async with SqliteStore(tmp_path / "state.db") as store:
        assert {query: await names(store, query) for query in expected} == expected


async def test_a_schema_of_an_earlier_version_is_found_in_again(postgres_url: str) -> None:
    async with PostgresStore(postgres_url) as store:
        await fill(store, tools())
        expected = {query: await names(store, query) for query in ("create issue", "forecast", "owner")}
        schema = store._db.address.schema
        await store._db.change(
            f"""
            SET LOCAL search_path TO {schema};
            DROP TABLE search_words;
            DROP TABLE pins, audit, access_entries, quota_use, quota_holds, schedules, triggers;
            DROP TABLE tool_vectors, vector_models;
            DELETE FROM meta WHERE key IN ('audit_pruned_to', 'access_version', 'vector_version');
            DROP FUNCTION keep_audit;
            DROP INDEX secrets_by_source;
            DROP INDEX calls_by_run;
            ALTER TABLE calls DROP COLUMN result, DROP COLUMN run, DROP COLUMN trace;
            DROP INDEX runs_by_queue;
            ALTER TABLE runs DROP COLUMN generation, DROP COLUMN queue, DROP COLUMN turn,
                DROP COLUMN priority, DROP COLUMN not_before;
            DROP INDEX run_events_by_step;
            ALTER TABLE sources DROP COLUMN left_out;
            CREATE TABLE tool_search (tool BIGINT PRIMARY KEY, document TSVECTOR NOT NULL);
            CREATE TEXT SEARCH DICTIONARY stem (TEMPLATE = snowball, LANGUAGE = porter);
            CREATE TEXT SEARCH CONFIGURATION words (PARSER = default);
            UPDATE meta SET value = 2 WHERE key = 'schema_version';
            """
        )
    async with PostgresStore(postgres_url) as store:
        assert {query: await names(store, query) for query in expected} == expected


def test_names_are_taken_apart_at_their_humps_and_underscores() -> None:
    assert words("getHTTPResponse") == ["get", "http", "response"]
    assert words("read_text_file") == ["read", "text", "file"]
    assert words("API-create-a-page") == ["api", "create", "a", "page"]
    assert words("größe2Mal") == ["große2", "mal"]
    assert words("Send e-mail") == ["send", "email"]


@examples(150)
@given(query=st.text(max_size=80) | st.text(alphabet="\"'*^:(){}-+ANDORNT aé日🎉\x00\ud800", max_size=80))
def test_no_query_raises(filled: str | None, query: str) -> None:
    async def run() -> None:
        async with SqliteStore(":memory:") if filled is None else PostgresStore(filled) as store:
            if filled is None:
                await fill(store, tools()[:5])
            found = await store.search(query, 3)
            assert len(found) <= 3

    asyncio.run(run())


@pytest.mark.parametrize("query", ["word " * 20_000, "x" * 500_000, "a b c d e f " * 100, "日本語" * 5000])
async def test_a_very_long_query_does_not_raise(catalog: Store, query: str) -> None:
    assert len(await names(catalog, query)) <= 10


async def test_ten_thousand_tools_are_searched(empty: Store) -> None:
    made: list[StoredTool] = []
    for number in range(10_000):
        spec = ToolSpec(f"handle_{number}", f"Common words here, number {number}.")
        made.append(StoredTool(f"big.handle_{number}", Tool(f"big.handle_{number}", "big", "mcp", spec, "f")))
    spec = ToolSpec("zz_common", "The last one.")
    made.append(StoredTool("big.zz_common", Tool("big.zz_common", "big", "mcp", spec, "f")))
    await empty.replace_tools(SourceState("big", "mcp", "", 1.0), made)
    assert (await names(empty, "handle 4711"))[0] == "big.handle_4711"
    assert len(await names(empty, "words")) == 10
    # A word that all have in their description, and one in its name.
    assert (await names(empty, "common"))[0] == "big.zz_common"
    assert len(await names(empty, "handle common", 10)) == 10


async def test_parameters_in_shared_definitions_are_found(empty: Store) -> None:
    shared = Definitions(
        {
            "Address": {"type": "object", "description": "Where parcels go.", "properties": {"zipCode": {}}},
            "Order": {
                "properties": {"shipTo": {"$ref": "#/$defs/Address"}, "again": {"$ref": "#/$defs/Order"}}
            },
            "Other": {"properties": {"zeppelin": {}}},
        }
    )
    schema = {"type": "object", "properties": {"body": {"$ref": "#/$defs/Order"}}}
    spec = ToolSpec("place_order", input_schema=schema, definitions=shared)
    await fill(empty, [Tool("shop.place_order", "shop", "openapi", spec, spec.fingerprint)])
    for query in ("ship to", "zip code", "parcels", "address"):
        assert await names(empty, query) == ["shop.place_order"]
    assert await names(empty, "zeppelin") == []


def test_the_synonyms_are_groups_of_words_each_with_a_trust() -> None:
    lines = [line for line in FILE.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    assert lines[0].startswith("= ")
    groups = [line for line in lines if not line.startswith("= ")]
    assert groups
    assert all(len(group.split()) > 1 and group.islower() for group in groups)
    assert synonyms("delet")["remov"] == 0.8
