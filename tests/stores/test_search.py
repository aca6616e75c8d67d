from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tool_set import tools

from spindle.domain.definitions import Definitions
from spindle.domain.tool import Tool, ToolSpec
from spindle.ports.store import SourceState, StoredTool
from spindle.stores.search import words
from spindle.stores.sqlite import SqliteStore


async def fill(store: SqliteStore, listed: list[Tool]) -> None:
    by_source: dict[str, list[StoredTool]] = {}
    for tool in listed:
        by_source.setdefault(tool.source, []).append(StoredTool(tool.name, tool))
    for source, stored in by_source.items():
        await store.replace_tools(SourceState(source, "mcp", "", 1.0), stored)


@pytest.fixture
async def catalog(memory: SqliteStore) -> SqliteStore:
    await fill(memory, tools())
    return memory


async def names(store: SqliteStore, query: str, limit: int = 10) -> list[str]:
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
async def test_the_right_tool_is_among_the_first_three(
    catalog: SqliteStore, query: str, expected: str
) -> None:
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
async def test_a_tool_is_found_while_its_name_is_typed(
    catalog: SqliteStore, typed: str, expected: str
) -> None:
    assert (await names(catalog, typed))[0] == expected


async def test_a_name_that_is_typed_whole_comes_first(catalog: SqliteStore) -> None:
    assert (await names(catalog, "query"))[0] == "postgres.query"
    assert (await names(catalog, "FETCH"))[0] == "fetch.fetch"


async def test_tools_with_all_words_come_before_tools_with_some(catalog: SqliteStore) -> None:
    found = await names(catalog, "github issue")
    assert all(name.startswith("github") and "issue" in name for name in found[:4])
    assert len(found) == 10


async def test_the_limit_is_kept(catalog: SqliteStore) -> None:
    assert len(await names(catalog, "file", 2)) == 2
    assert await names(catalog, "file", 0) == []


@pytest.mark.parametrize("query", ["", "   ", '"', "🎉", "*", "()", "'; --", "\x00", ". , -"])
async def test_a_query_without_words_finds_nothing(catalog: SqliteStore, query: str) -> None:
    assert await names(catalog, query) == []


@pytest.mark.parametrize(
    "query",
    [
        'issue" OR "x', "issue AND", "NOT issue", "issue NEAR(create)", "name: issue", "{name}: issue",
        "issue*", "^issue", "(issue", "issue -create", "issue + create", "'issue'", 'issue "',
    ],
)  # fmt: skip
async def test_operators_are_only_punctuation(catalog: SqliteStore, query: str) -> None:
    assert any("issue" in name for name in (await names(catalog, query))[:4])


async def test_words_that_say_nothing_are_used_when_there_is_nothing_else(catalog: SqliteStore) -> None:
    assert await names(catalog, "the") != []


async def test_case_accents_and_word_forms_do_not_matter(memory: SqliteStore) -> None:
    spec = ToolSpec("traduire", "Traduit les résumés")
    await fill(memory, [Tool("fr.traduire", "fr", "mcp", spec, spec.fingerprint)])
    assert await names(memory, "RESUME") == ["fr.traduire"]


def test_names_are_taken_apart_at_their_humps_and_underscores() -> None:
    assert words("getHTTPResponse") == ["get", "http", "response"]
    assert words("read_text_file") == ["read", "text", "file"]
    assert words("API-create-a-page") == ["api", "create", "a", "page"]
    assert words("größe2Mal") == ["größe2", "mal"]


@settings(max_examples=150, deadline=None)
@given(query=st.text(max_size=80) | st.text(alphabet="\"'*^:(){}-+ANDORNT aé日🎉\x00\ud800", max_size=80))
def test_no_query_raises(query: str) -> None:
    async def run() -> None:
        async with SqliteStore(":memory:") as store:
            await fill(store, tools()[:5])
            found = await store.search(query, 3)
            assert len(found) <= 3

    asyncio.run(run())


@pytest.mark.parametrize("query", ["word " * 20_000, "x" * 500_000, "a b c d e f " * 100, "日本語" * 5000])
async def test_a_very_long_query_does_not_raise(catalog: SqliteStore, query: str) -> None:
    assert len(await names(catalog, query)) <= 10


async def test_ten_thousand_tools_are_searched(memory: SqliteStore) -> None:
    made: list[StoredTool] = []
    for number in range(10_000):
        spec = ToolSpec(f"handle_{number}", f"Common words here, number {number}.")
        made.append(StoredTool(f"big.handle_{number}", Tool(f"big.handle_{number}", "big", "mcp", spec, "f")))
    spec = ToolSpec("zz_common", "The last one.")
    made.append(StoredTool("big.zz_common", Tool("big.zz_common", "big", "mcp", spec, "f")))
    await memory.replace_tools(SourceState("big", "mcp", "", 1.0), made)
    assert (await names(memory, "handle 4711"))[0] == "big.handle_4711"
    assert len(await names(memory, "words")) == 10
    # A word that all have in their description, and one in its name.
    assert (await names(memory, "common"))[0] == "big.zz_common"
    assert len(await names(memory, "handle common", 10)) == 10


async def test_parameters_in_shared_definitions_are_found(memory: SqliteStore) -> None:
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
    await fill(memory, [Tool("shop.place_order", "shop", "openapi", spec, spec.fingerprint)])
    for query in ("ship to", "zip code", "parcels", "address"):
        assert await names(memory, query) == ["shop.place_order"]
    assert await names(memory, "zeppelin") == []
