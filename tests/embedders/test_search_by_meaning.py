"""Tools that are found by what they are about, though not a word of the question is theirs."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from counting import CountingEmbedder, meaning_of
from hypothesis import given
from hypothesis import strategies as st

from servers.running import PATIENCE
from spindle.catalog.fusion import fused
from spindle.catalog.meaning import AWAY, MeaningSearch
from spindle.catalog.own_tools import OwnTools
from spindle.domain.tool import Tool, ToolSpec, ToolSummary
from spindle.errors import ConnectionFailedError, SpindleError
from spindle.ports.store import SourceState, Store, StoredTool
from spindle.ports.vector_store import ToolVector
from spindle.stores.postgres import PostgresStore
from spindle.stores.sqlite import SqliteStore

TOOLS = {
    "office.send": "Write a letter to somebody",
    "office.fetch": "Get the newest message",
    "player.next": "Jump to another track",
    "sky.ahead": "The forecast of the coming days",
    "disk.list": "What is in a folder",
}


def tool(name: str, description: str) -> Tool:
    spec = ToolSpec(name.partition(".")[2], description, {"type": "object", "properties": {}})
    return Tool(name, name.partition(".")[0], "mcp", spec, spec.fingerprint)


async def put(store: Store, tools: dict[str, str]) -> None:
    sources = {name.partition(".")[0] for name in tools}
    for source in sorted(sources):
        stored = [
            StoredTool(name, tool(name, text))
            for name, text in tools.items()
            if name.startswith(f"{source}.")
        ]
        await store.replace_tools(SourceState(source, "mcp", "", 1.0), stored)


@pytest.fixture(params=["sqlite", "postgres"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    made = (
        PostgresStore(request.getfixturevalue("postgres_url"))
        if request.param == "postgres"
        else SqliteStore(":memory:")
    )
    async with made as opened:
        await put(opened, TOOLS)
        yield opened


class Workspace:
    """The search of one process."""

    def __init__(
        self, *stores: Store, embedder: CountingEmbedder | None = None, patience: float = 5.0
    ) -> None:
        self.embedder = embedder or CountingEmbedder()
        self.notes: list[str] = []
        self.now = 0.0
        self.meaning = MeaningSearch(
            lambda: self.embedder, stores, self.notes.append, patience, clock=lambda: self.now
        )
        self.own = OwnTools(stores[0], lambda source: source != "foreign")

    async def __call__(self, query: str, limit: int = 3) -> list[str]:
        return [item.name for item in await self.own.search(query, limit, self.meaning)]


@pytest.fixture
async def search(store: Store) -> AsyncIterator[Workspace]:
    made = Workspace(store)
    yield made
    await made.meaning.close()


async def test_a_question_without_any_word_of_the_tool_finds_it(store: Store, search: Workspace) -> None:
    await search.meaning.settled()
    assert await OwnTools(store, lambda _: True).search("do I need an umbrella", 3) == []
    assert (await search("do I need an umbrella"))[0] == "sky.ahead"
    assert (await search("which tune is it"))[0] == "player.next"


async def test_a_tool_whose_name_was_typed_stays_the_first(search: Workspace) -> None:
    await search.meaning.settled()
    assert (await search("list"))[0] == "disk.list"
    assert (await search("List "))[0] == "disk.list"


async def test_only_what_has_changed_is_given_to_the_model(store: Store, search: Workspace) -> None:
    await search.meaning.settled()
    assert len(search.embedder.texts) == 2 * len(TOOLS)
    search.embedder.texts.clear()
    await put(store, TOOLS)
    await search.meaning.settled()
    assert search.embedder.texts == []
    await put(store, {"office.send": TOOLS["office.send"], "office.fetch": "What is in the disk's folder"})
    await search.meaning.settled()
    assert len(search.embedder.texts) == 2
    assert all("folder" in text for text in search.embedder.texts)
    assert set(await search("disk", 2)) == {"disk.list", "office.fetch"}


async def test_a_definition_that_says_the_same_keeps_its_vector(store: Store, search: Workspace) -> None:
    await search.meaning.settled()
    search.embedder.texts.clear()
    same = tool("sky.ahead", TOOLS["sky.ahead"])
    spec = ToolSpec("ahead", same.description, {"type": "object", "properties": {}, "minProperties": 0})
    other = Tool("sky.ahead", "sky", "mcp", spec, spec.fingerprint)
    assert other.fingerprint != same.fingerprint
    await store.replace_tools(SourceState("sky", "mcp", "", 1.0), [StoredTool("sky.ahead", other)])
    assert len(await store.without_vectors("counting@1")) == 1
    await search.meaning.settled()
    assert search.embedder.texts == []
    assert await store.without_vectors("counting@1") == []


async def test_progress_is_told_up_to_the_end(search: Workspace) -> None:
    told: list[tuple[int, int]] = []
    await search.meaning.settled(lambda done, of: told.append((done, of)))
    assert told[-1] == (len(TOOLS), len(TOOLS))
    assert [done for done, _ in told] == sorted(done for done, _ in told)


async def test_another_model_makes_its_own_vectors(store: Store, search: Workspace) -> None:
    await search.meaning.settled()
    other = Workspace(store, embedder=CountingEmbedder("counting@2"))
    await other.meaning.settled()
    assert len(other.embedder.texts) == 2 * len(TOOLS)
    assert (await other("umbrella"))[0] == (await search("umbrella"))[0] == "sky.ahead"
    await other.meaning.close()


async def test_models_that_nobody_uses_are_forgotten(store: Store, search: Workspace) -> None:
    await search.meaning.settled()
    await store.use_model("counting@2", 10**6)
    await store.forget_vectors(10**6 - 30)
    assert len(await store.without_vectors("counting@1")) == len(TOOLS)
    await search.meaning.settled()
    await store.forget_vectors(10**4)
    assert await store.without_vectors("counting@1") == []


async def test_a_tool_that_is_gone_takes_no_place_and_may_come_back(store: Store, search: Workspace) -> None:
    await search.meaning.settled()
    assert (await search("letter", 1)) == ["office.send"]
    await put(store, {"office.fetch": TOOLS["office.fetch"]})
    assert (await search("letter", 1)) == ["office.fetch"]
    await put(store, TOOLS)
    await search.meaning.settled()
    assert (await search("letter", 1)) == ["office.send"]


async def test_a_change_is_found_by_a_search_that_nobody_woke(store: Store, search: Workspace) -> None:
    await search.meaning.settled()
    assert "office.paint" not in await search("song", 5)
    await put(store, {"office.paint": "Hum a tune"})
    await search("song")
    await search.meaning.settled()
    assert "office.paint" in await search("song")


async def test_tools_of_others_are_not_found(store: Store, search: Workspace) -> None:
    await put(store, {"foreign.sing": "song song song"})
    await search.meaning.settled()
    assert await store.without_vectors("counting@1") == []
    assert "foreign.sing" not in await search("which tune is it", 10)


async def test_several_stores_are_searched_as_one(store: Store) -> None:
    async with SqliteStore(":memory:") as private:
        await put(private, {"mine.hum": "song music tune track"})
        search = Workspace(store, private)
        await search.meaning.settled()
        found = await search.meaning.near("music", 2, 1)
        assert {item.name for item in found} == {"mine.hum", "player.next"}
        await search.meaning.close()


# --- a model that is away


async def test_words_alone_answer_while_the_model_is_away_and_it_is_told_once(search: Workspace) -> None:
    await search.meaning.settled()

    def fail(_: Sequence[str]) -> Any:
        raise ConnectionFailedError("nobody there", hint="start it")

    search.embedder.answer = fail
    assert await search("folder") == ["disk.list"]
    assert await search("umbrella") == []
    search.now += AWAY
    assert await search("umbrella") == []
    assert search.notes == ["tools are found by their words alone: nobody there (start it)"]
    asked = len(search.embedder.queries)
    assert await search("umbrella") == []
    assert len(search.embedder.queries) == asked, "it is left alone for a while"
    search.now += AWAY
    search.embedder.answer = None
    assert (await search("umbrella"))[0] == "sky.ahead"
    search.embedder.answer = fail
    assert await search("a tune") == []
    assert len(search.notes) == 2, "it was there in between"


async def test_a_search_does_not_wait_for_a_model_that_never_answers(store: Store) -> None:
    search = Workspace(store, patience=0.05)
    search.embedder.gate = asyncio.Event()
    assert await search("folder") == ["disk.list"]
    assert "did not answer within 0.05 s" in search.notes[0]
    await search.meaning.close()
    assert search.embedder.closed == 1


async def test_a_model_that_takes_long_to_load_is_waited_for() -> None:
    ready = threading.Event()
    embedder, notes, patience = CountingEmbedder(), list[str](), 2.0

    def load() -> CountingEmbedder:
        assert ready.wait(PATIENCE)
        return embedder

    async with SqliteStore(":memory:") as store:
        await put(store, TOOLS)
        meaning = MeaningSearch(load, [store], notes.append, patience)
        asyncio.get_running_loop().call_later(patience + 0.5, ready.set)
        found = await OwnTools(store, lambda _: True).search("umbrella", 3, meaning)
        assert [item.name for item in found][:1] == ["sky.ahead"]
        assert notes == []
        await meaning.close()


@pytest.mark.parametrize(
    "answer",
    [
        lambda texts: [],
        lambda texts: [[1.0]] * (len(texts) + 1),
        lambda texts: [[math.nan, 1.0]] * len(texts),
        lambda texts: [[math.inf, 1.0]] * len(texts),
        lambda texts: [[3e38, 3e38]] * len(texts),
        lambda texts: [[10**400]] * len(texts),
        lambda texts: [["one", "two"]] * len(texts),
        lambda texts: [[1.0, 2.0], [1.0]] if len(texts) > 1 else [[[1.0]]],
        lambda texts: [[]] * len(texts),
        lambda texts: [[0.5] * 9000] * len(texts),
        lambda texts: [None] * len(texts),
        lambda texts: [{"a": 1}] * len(texts),
    ],
)
async def test_an_answer_that_is_none_costs_meaning_and_not_the_search(answer: Any) -> None:
    async with SqliteStore(":memory:") as store:
        await put(store, TOOLS)
        search = Workspace(store)
        search.embedder.answer = answer
        await search.meaning.settled()
        assert len(await store.without_vectors("counting@1")) == len(TOOLS)
        assert await search("folder") == ["disk.list"]
        assert len(search.notes) == 1
        await search.meaning.close()


async def test_vectors_of_another_length_are_passed_over(store: Store, search: Workspace) -> None:
    await search.meaning.settled()
    search.embedder.answer = lambda texts: [[*meaning_of(text), 1.0] for text in texts]
    assert await search("folder") == ["disk.list"]
    search.embedder.answer = None
    assert (await search("an umbrella"))[0] == "sky.ahead"


async def test_a_model_that_cannot_be_made_is_told(store: Store) -> None:
    def make() -> CountingEmbedder:
        raise SpindleError("not installed", hint="install it")

    notes: list[str] = []
    meaning = MeaningSearch(make, [store], notes.append, 5.0)
    assert await meaning.near("umbrella", 5, 1) == []
    await meaning.settled()
    assert notes == ["tools are found by their words alone: not installed (install it)"]
    await meaning.close()


async def test_a_model_that_was_away_makes_the_vectors_when_it_is_back(search: Workspace) -> None:
    def fail(_: Sequence[str]) -> Any:
        raise ConnectionFailedError("nobody there")

    search.embedder.answer = fail
    await search.meaning.settled()
    assert await search("umbrella") == []
    search.embedder.answer = None
    search.now += AWAY
    await search("umbrella")
    assert (await search("an umbrella"))[0] == "sky.ahead", "no tool had to change for it"


async def test_a_model_that_loads_slowly_is_loaded_once_though_searches_are_cancelled(store: Store) -> None:
    loaded, may_go_on = threading.Event(), threading.Event()
    count = 0

    def make() -> CountingEmbedder:
        nonlocal count
        count += 1
        loaded.set()
        assert may_go_on.wait(60)
        return CountingEmbedder()

    meaning = MeaningSearch(make, [store], lambda _: None, 5.0)
    for _ in range(3):
        searching = asyncio.create_task(meaning.near("umbrella", 3, 1))
        await asyncio.to_thread(loaded.wait, 60)
        searching.cancel()
        await asyncio.wait({searching})
    may_go_on.set()
    await meaning.settled()
    assert count == 1
    await meaning.close()


# --- several at once


async def test_tools_that_come_while_vectors_are_made_get_theirs(store: Store, search: Workspace) -> None:
    search.embedder.gate = asyncio.Event()
    work = search.meaning.wake()
    while not search.embedder.texts:
        await asyncio.sleep(0)
    await put(store, {"player.hum": "Hum a song"})
    search.meaning.wake()
    search.embedder.gate.set()
    await work
    assert await store.without_vectors("counting@1") == []


async def test_vectors_that_another_process_is_making_are_not_taken_for_unused(store: Store) -> None:
    slow, other = Workspace(store, embedder=CountingEmbedder("slow@1", batch=1)), Workspace(store)
    slow.embedder.gate = asyncio.Event()
    work = slow.meaning.wake()
    while not slow.embedder.texts:
        await asyncio.sleep(0)
    await store.save_vectors("slow@1", [ToolVector("sky.ahead", "f", "d", b"")])
    await other.meaning.settled()
    assert await store.vectors("slow@1", 0) == [("sky.ahead", b"")]
    slow.embedder.gate.set()
    await work
    await slow.meaning.close()
    await other.meaning.close()


async def test_searches_at_once_find_what_is_left_of_a_large_source(store: Store, search: Workspace) -> None:
    search.embedder.batch = 500
    many = {f"band.play_{number}": "song music tune" for number in range(2000)}
    await put(store, many)
    await search.meaning.settled()
    await put(store, {"band.play_7": "song music tune"})
    found = await asyncio.gather(*(search.meaning.near(f"tune {place}", 2, 99) for place in range(8)))
    assert [{item.name for item in each} for each in found] == [{"band.play_7", "player.next"}] * 8


async def test_two_processes_share_the_work_and_both_see_it(store: Store, search: Workspace) -> None:
    other = Workspace(store)
    await asyncio.gather(search.meaning.settled(), other.meaning.settled())
    given = len(search.embedder.texts) + len(other.embedder.texts)
    assert given == 2 * len(TOOLS)
    assert (await search("umbrella"))[0] == (await other("umbrella"))[0] == "sky.ahead"
    await other.meaning.close()


async def test_what_was_made_before_the_end_is_not_made_again(store: Store) -> None:
    first = Workspace(store, embedder=CountingEmbedder(batch=1))

    def stop_after_two(texts: Sequence[str]) -> Any:
        if len(first.embedder.texts) > 4:
            raise ConnectionFailedError("gone")
        return [meaning_of(text) for text in texts]

    first.embedder.answer = stop_after_two
    await first.meaning.settled()
    await first.meaning.close()
    assert len(await store.without_vectors("counting@1")) == len(TOOLS) - 2
    second = Workspace(store)
    await second.meaning.settled()
    assert len(second.embedder.texts) == 2 * (len(TOOLS) - 2)
    await second.meaning.close()


# --- one list out of two


def by_words(names: Sequence[str], said: float = 0.5) -> list[ToolSummary]:
    """The first says as much, each other one less than the one before it."""
    return [
        ToolSummary(name, "s", "mcp", "", (), said=said / (1 + place)) for place, name in enumerate(names)
    ]


def by_meaning(names: Sequence[str], near: float = 1.0) -> list[ToolSummary]:
    return [
        ToolSummary(name, "s", "mcp", "", (), near=near / (1 + place)) for place, name in enumerate(names)
    ]


def named(found: Sequence[ToolSummary]) -> list[str]:
    return [item.name for item in found]


LISTS = st.lists(st.sampled_from([f"s.{letter}" for letter in "abcdefgh"]), unique=True)
SAID = st.floats(min_value=0.01, max_value=3)
NEAR = st.floats(min_value=0.01, max_value=9)


@given(LISTS, LISTS, SAID, NEAR, st.text(max_size=5))
def test_both_lists_count_and_nothing_is_lost(
    words: list[str], meant: list[str], said: float, near: float, query: str
) -> None:
    found = named(fused(query, by_words(words, said), by_meaning(meant, near)))
    assert sorted(found) == sorted({*words, *meant})
    if words and meant and words[0] == meant[0]:
        assert found[0] == words[0]


@given(LISTS.filter(bool), LISTS, SAID, NEAR)
def test_a_tool_that_is_called_what_was_asked_stays_the_first_however_near_others_are(
    words: list[str], meant: list[str], said: float, near: float
) -> None:
    query = words[0].partition(".")[2].upper()
    assert named(fused(query, by_words(words, said), by_meaning(meant, near)))[0] == words[0]


@given(LISTS, SAID)
def test_without_a_model_the_order_is_that_of_the_words(words: list[str], said: float) -> None:
    assert named(fused("q", by_words(words, said), [])) == words


@given(LISTS, NEAR)
def test_without_a_word_in_common_the_order_is_that_of_the_meaning(meant: list[str], near: float) -> None:
    assert named(fused("q", [], by_meaning(meant, near))) == meant


@given(LISTS.filter(bool), LISTS.filter(bool), SAID, SAID)
def test_the_more_words_say_of_a_question_the_more_they_count(
    words: list[str], meant: list[str], one: float, other: float
) -> None:
    less, more = sorted((one, other))
    before = named(fused("q", by_words(words, less), by_meaning(meant)))
    after = named(fused("q", by_words(words, more), by_meaning(meant)))
    assert after.index(words[0]) <= before.index(words[0])


def test_words_decide_where_a_tool_says_the_question_and_meaning_where_none_does() -> None:
    words, meant = ("s.a", "s.b"), ("s.c", "s.d")
    assert named(fused("q", by_words(words, 0.9), by_meaning(meant, 3)))[0] == "s.a"
    assert named(fused("q", by_words(words, 0.1), by_meaning(meant, 3)))[0] == "s.c"


async def test_a_model_to_which_all_texts_are_alike_counts_as_much_as_others() -> None:
    found: list[list[ToolSummary]] = []
    async with SqliteStore(":memory:") as store:
        await put(store, TOOLS)
        for alike in (0.0, 5.0):
            embedder = CountingEmbedder(model=f"alike {alike}")
            embedder.answer = lambda texts, alike=alike: [[*meaning_of(text), alike] for text in texts]
            search = Workspace(store, embedder=embedder)
            await search.meaning.settled()
            found.append(await search.meaning.near("umbrella", 5, 1))
            await search.meaning.close()
    assert [tools[0].name for tools in found] == ["sky.ahead"] * 2
    # Of the similarities themselves one is some twenty times the other.
    assert found[0][0].near == pytest.approx(found[1][0].near, rel=0.5)


async def test_a_tool_whose_two_texts_differ_is_as_near_as_others(store: Store) -> None:
    # The middle of two directions is shorter than either, and would be taken for a tool farther away.
    search = Workspace(store)
    apart = iter([[1.0, 1.0, 0.0], [1.0, -1.0, 0.0]])
    beside, asked = [1.0, 0.0, 0.8], [1.0, 0.0, 0.0]
    search.embedder.answer = lambda texts: [
        next(apart) if "forecast" in text else asked if text == "ask" else beside for text in texts
    ]
    await search.meaning.settled()
    found = await search.meaning.near("ask", 1, 1)
    assert named(found) == ["sky.ahead"]
    await search.meaning.close()
