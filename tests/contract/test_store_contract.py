"""What every store must do with tools, calls and results."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any, cast

import pytest

from spindle.domain.call import Block, CallRecord, Result
from spindle.domain.definitions import Definitions
from spindle.domain.tool import Hints, LeftOut, Loosened, Repaired, Tool, ToolSpec
from spindle.errors import NameConflictError, NotFoundError, StoreError
from spindle.ports.store import CallFilter, CallTiming, PinChange, SourceState, Store, StoredTool, ToolFilter


def a_tool(name: str, source: str = "files", **spec: Any) -> Tool:
    local = name.removeprefix(f"{source}.")
    described = ToolSpec(remote_name=local, **{"place": f"{source} server", **spec})
    return Tool(name, source, "mcp", described, described.fingerprint)


def stored(*tools: Tool) -> list[StoredTool]:
    return [StoredTool(tool.name, current=tool) for tool in tools]


def a_state(source: str = "files", signature: str = "v1") -> SourceState:
    return SourceState(source, "mcp", signature, synced_at=100.0)


def a_record(key: str, **fields: Any) -> CallRecord:
    values: dict[str, Any] = {
        "tool": "files.read", "source": "files", "principal": "local", "arguments": {"path": "x"},
        "outcome": "ok", "started_at": 1.5, "duration": 0.25, "attempts": 1,
    }  # fmt: skip
    return CallRecord(key=key, **{**values, **fields})


class TestPins:
    async def test_pins_are_none_until_there_are_some_and_outlive_the_tools(self, store: Store) -> None:
        assert await store.pins("files") is None
        tool = a_tool("files.read")
        assert await store.replace_tools(a_state(), stored(tool), PinChange(None, {}))
        assert await store.pins("files") == {}
        after = {"files.read": tool.fingerprint, "files.gone": "f"}
        assert await store.replace_tools(a_state(), stored(tool), PinChange({}, after))
        assert await store.replace_tools(a_state(), [])
        assert await store.pins("files") == after
        assert await store.pins("other") is None

    async def test_pins_that_changed_meanwhile_change_nothing(self, store: Store) -> None:
        old, new = a_tool("files.read"), a_tool("files.read", description="another")
        assert await store.replace_tools(a_state(), stored(old), PinChange(None, {"files.read": "1"}))
        assert not await store.replace_tools(a_state(), stored(new), PinChange(None, None))
        assert not await store.replace_tools(a_state(), stored(new), PinChange({"files.read": "0"}, {}))
        assert await store.tool("files.read") == old
        assert await store.pins("files") == {"files.read": "1"}

    async def test_pins_end_when_they_are_told_to_and_with_their_source(self, store: Store) -> None:
        pins = {"files.read": "1"}
        assert await store.replace_tools(a_state(), [], PinChange(None, pins))
        assert await store.replace_tools(a_state(), [], PinChange(pins, None))
        assert await store.pins("files") is None
        assert await store.replace_tools(a_state(), [], PinChange(None, pins))
        await store.forget_source("files")
        assert await store.pins("files") is None


class TestTools:
    async def test_a_tool_comes_back_as_it_was_stored(self, store: Store) -> None:
        tool = a_tool(
            "files.read",
            description="Read a file.\n\nAll of it — ünïcode 🎉.",
            input_schema={"type": "object", "properties": {"n": {"type": "integer", "maximum": 2**70}}},
            output_schema={"type": "object"},
            title="Read",
            hints=Hints(read_only=True, destructive=False),
            tags=("disk", "two words"),
            place="the files server",
            pure=True,
            metadata={"icon": "x"},
        )
        await store.replace_tools(a_state(), stored(tool))
        assert await store.tool("files.read") == tool

    async def test_definitions_that_tools_share_come_back_with_each_of_them(self, store: Store) -> None:
        shared = Definitions(
            {
                "Node": {"properties": {"next": {"$ref": "#/$defs/Node"}, "at": {"$ref": "#/$defs/Place"}}},
                "Place": {"type": "string"},
                "Other": {"type": "integer"},
            }
        )
        node: dict[str, Any] = {"type": "object", "properties": {"n": {"$ref": "#/$defs/Node"}}}
        place = {"type": "object", "properties": {"p": {"$ref": "#/$defs/Place"}}}
        one = a_tool("files.one", input_schema=node, output_schema=place, definitions=shared)
        two = a_tool("files.two", input_schema=place, definitions=shared)
        await store.replace_tools(a_state(), stored(one, two, a_tool("files.plain")))
        found = await store.tool("files.one")
        assert found is not None
        assert found == one
        assert found.spec.fingerprint == one.fingerprint
        assert found.input_schema == {
            **node, "$defs": {name: shared.schemas[name] for name in ("Node", "Place")}
        }  # fmt: skip
        assert found.output_schema == {**place, "$defs": {"Place": {"type": "string"}}}
        all_of_it = {entry.name: entry.current for entry in await store.stored_tools("files")}
        assert all_of_it["files.two"] is not None
        assert all_of_it["files.two"].input_schema["$defs"] == {"Place": {"type": "string"}}
        assert all_of_it["files.plain"] is not None
        assert "$defs" not in all_of_it["files.plain"].input_schema

    async def test_a_held_tool_keeps_its_own_version_of_a_shared_definition(self, store: Store) -> None:
        schema = {"type": "object", "properties": {"p": {"$ref": "#/$defs/Place"}}}
        old = a_tool("files.a", input_schema=schema, definitions=Definitions({"Place": {"type": "string"}}))
        new = a_tool("files.a", input_schema=schema, definitions=Definitions({"Place": {"type": "null"}}))
        assert old.fingerprint != new.fingerprint
        await store.replace_tools(a_state(), [StoredTool("files.a", current=old, held=new)])
        [entry] = await store.stored_tools("files")
        assert entry.current is not None
        assert entry.held is not None
        assert entry.current.input_schema["$defs"] == {"Place": {"type": "string"}}
        assert entry.held.input_schema["$defs"] == {"Place": {"type": "null"}}
        assert entry.held.fingerprint == new.fingerprint
        await store.replace_tools(a_state(), stored(new))
        found = await store.tool("files.a")
        assert found is not None
        assert found.input_schema["$defs"] == {"Place": {"type": "null"}}

    async def test_text_that_is_not_unicode_does_not_stop_a_source(self, store: Store) -> None:
        odd = a_tool("files.read", description="a byte \udcff of a file name", tags=("\ud800",))
        await store.replace_tools(a_state(), stored(odd))
        found = await store.tool("files.read")
        assert found is not None
        assert found.spec.description == "a byte \udcff of a file name"
        assert [summary.name for summary in await store.search("byte", 3)] == ["files.read"]

    async def test_text_with_a_nul_does_not_stop_a_source(self, store: Store) -> None:
        odd = a_tool("files.read", description="before \0 after", tags=("a\0b",), title="t\0")
        await store.replace_tools(a_state(signature="s"), stored(odd))
        found = await store.tool("files.read")
        assert found is not None
        assert found.spec.description == "before \0 after"
        assert [summary.name for summary in await store.search("before", 3)] == ["files.read"]
        await store.note_failure("files", "mcp", "no \0 answer")
        assert (await store.sources())["files"].error is not None
        await store.save_call(a_record("k", arguments={"x": "\0"}, tool="files.\0", principal="a\0"))
        record = await store.call("k")
        assert record is not None
        assert record.arguments == {"x": "\0"}
        assert await store.tool("\0") is None

    async def test_very_long_texts_are_stored_and_found(self, store: Store) -> None:
        long = "first " + "x" * 5000 + " " + " ".join(f"word{number}" for number in range(200_000))
        await store.replace_tools(a_state(), stored(a_tool("files.read", description=long)))
        found = await store.tool("files.read")
        assert found is not None
        assert found.spec.description == long
        assert [summary.name for summary in await store.search("first", 3)] == ["files.read"]
        assert len(await store.search("x" * 5000, 3)) <= 1

    async def test_a_source_without_tools_is_known(self, store: Store) -> None:
        await store.replace_tools(a_state(), [])
        assert (await store.sources())["files"].tool_count == 0
        assert await store.stored_tools("files") == []
        assert await store.stored_tools("none") == []

    async def test_a_search_looks_in_all_texts_and_takes_names_apart(self, store: Store) -> None:
        schema = {"type": "object", "properties": {"targetFolder": {"description": "where it goes"}}}
        copy = a_tool("files.copyFile", description="Duplicates things.", tags=("disk",), input_schema=schema)
        other = a_tool("files.stat_all", description="Tells of every copy how old it is.")
        await store.replace_tools(a_state(), stored(copy, other))

        async def found(query: str, limit: int = 5) -> list[str]:
            return [summary.name for summary in await store.search(query, limit)]

        for query in ("copyfile", "DISK", "folder", "dup"):
            assert await found(query) == ["files.copyFile"], query
        for query in ("copy", "copies", "duplicate", "clone", "dupplicate"):
            assert await found(query) == ["files.copyFile", "files.stat_all"], query
        assert await found("copy", 1) == ["files.copyFile"]
        assert await found("stat-all") == ["files.stat_all"]
        assert await found("nothing like it") == []

    async def test_a_search_tells_how_much_of_the_query_each_tool_says(self, store: Store) -> None:
        tools = [a_tool(f"files.other_{number}", description="Nothing of it.") for number in range(9)]
        copy = a_tool("files.copy_folder", description="Duplicates.")
        await store.replace_tools(a_state(), stored(copy, *tools))
        [whole] = await store.search("copy folder", 3)
        [half] = await store.search("copy xylophone", 3)
        [little] = await store.search("copy xylophone trumpet violin", 3)
        assert whole.said > half.said > little.said > 0
        many = [found.said for found in await store.search("other nothing copy", 20)]
        assert len(many) == 10
        assert many == sorted(many, reverse=True)

    async def test_a_name_that_is_not_unicode_is_just_not_found(self, store: Store) -> None:
        assert await store.tool("\udcff") is None
        assert await store.names_ending_in("\udcff") == []
        assert await store.call("\udcff") is None
        assert await store.search("\udcff", 3) == []
        assert await store.tools(ToolFilter(pattern="\udcff*")) == []

    async def test_replacing_removes_what_is_no_longer_there(self, store: Store) -> None:
        await store.replace_tools(a_state(), stored(a_tool("files.read"), a_tool("files.write")))
        await store.replace_tools(a_state(), stored(a_tool("files.write"), a_tool("files.stat")))
        assert await store.names() == ["files.stat", "files.write"]
        assert await store.search("read", 5) == []

    async def test_replacing_one_source_leaves_the_others(self, store: Store) -> None:
        await store.replace_tools(a_state("git"), stored(a_tool("git.log", "git")))
        await store.replace_tools(a_state(), stored(a_tool("files.read")))
        await store.replace_tools(a_state(), [])
        assert await store.names() == ["git.log"]

    async def test_the_last_part_of_a_name_finds_every_tool_that_has_it(self, store: Store) -> None:
        await store.replace_tools(a_state(), stored(a_tool("files.read"), a_tool("files.read_all")))
        await store.replace_tools(a_state("git"), stored(a_tool("git.read", "git")))
        assert await store.names_ending_in("read") == ["files.read", "git.read"]
        assert await store.names_ending_in("rea") == []

    async def test_names_are_read_by_source(self, store: Store) -> None:
        assert await store.names_by_source() == {}
        await store.replace_tools(a_state(), stored(a_tool("files.write"), a_tool("files.read")))
        await store.replace_tools(a_state("git"), stored(a_tool("log", "git")))
        await store.replace_tools(a_state("empty"), [])
        assert await store.names_by_source() == {"files": ["files.read", "files.write"], "git": ["log"]}

    @pytest.mark.parametrize(
        ("where", "expected"),
        [
            (ToolFilter(), ["files.read", "files.write", "git.log"]),
            (ToolFilter(source="files"), ["files.read", "files.write"]),
            (ToolFilter(kind="python"), ["git.log"]),
            (ToolFilter(tag="safe"), ["files.read", "git.log"]),
            (ToolFilter(tag="very safe"), ["git.log"]),
            (ToolFilter(tag="saf"), []),
            (ToolFilter(pattern="*.r*"), ["files.read"]),
            (ToolFilter(pattern="files.*"), ["files.read", "files.write"]),
            (ToolFilter(pattern="file?.[rw]*"), ["files.read", "files.write"]),
            (ToolFilter(pattern="%"), []),
            (ToolFilter(pattern="[^f]*"), ["git.log"]),
            (ToolFilter(pattern="*.[]l]og"), ["git.log"]),
            (ToolFilter(pattern="file["), []),
            (ToolFilter(pattern="[z-a]*"), []),
            (ToolFilter(pattern="files.read|git.log"), []),
            (ToolFilter(pattern="FILES.*"), []),
            (ToolFilter(pattern=""), []),
            (ToolFilter(source="files", tag="safe", pattern="*"), ["files.read"]),
            (ToolFilter(source="none"), []),
            (ToolFilter(effect="read-only"), ["git.log"]),
            (ToolFilter(effect="changes things"), ["files.read", "files.write"]),
            (ToolFilter(effect="destructive"), ["files.write"]),
            (ToolFilter(effect="safe to repeat"), ["files.write", "git.log"]),
            (ToolFilter(source="files", effect="safe to repeat"), ["files.write"]),
        ],
    )
    async def test_a_listing_is_filtered(self, store: Store, where: ToolFilter, expected: list[str]) -> None:
        destroys = Hints(destructive=True, idempotent=True)
        read, write = a_tool("files.read", tags=("safe", "disk")), a_tool("files.write", hints=destroys)
        log = a_tool("git.log", "git", tags=("very safe", "safe"), hints=Hints(read_only=True))
        await store.replace_tools(a_state(), stored(read, write))
        await store.replace_tools(dataclasses.replace(a_state("git"), kind="python"), stored(log))
        assert [summary.name for summary in await store.tools(where)] == expected

    async def test_a_listing_keeps_tags_that_have_spaces(self, store: Store) -> None:
        await store.replace_tools(a_state(), stored(a_tool("files.read", tags=("two words", "one"))))
        [summary] = await store.tools(ToolFilter())
        assert summary.tags == ("two words", "one")

    async def test_a_held_definition_waits_beside_the_one_in_force(self, store: Store) -> None:
        now, later = a_tool("files.read", description="old"), a_tool("files.read", description="new")
        await store.replace_tools(a_state(), [StoredTool("files.read", now, later)])
        assert await store.tool("files.read") == now
        assert await store.stored_tools("files") == [StoredTool("files.read", now, later)]
        [summary] = await store.tools(ToolFilter())
        assert summary.held
        assert summary.description == "old"

    async def test_a_tool_that_was_never_accepted_cannot_be_found(self, store: Store) -> None:
        await store.replace_tools(a_state(), [StoredTool("files.wipe", None, a_tool("files.wipe"))])
        assert await store.tool("files.wipe") is None
        assert await store.names() == []
        assert await store.names_by_source() == {}
        assert await store.names_ending_in("wipe") == []
        assert await store.tools(ToolFilter()) == []
        assert await store.search("wipe", 5) == []
        assert (await store.sources())["files"].held_count == 1

    async def test_two_sources_with_one_name_are_refused_and_both_are_named(self, store: Store) -> None:
        await store.replace_tools(a_state("a"), stored(a_tool("read", "a", place="a.py:3")))
        with pytest.raises(NameConflictError, match=r"'read'.*a\.py:3.*b\.py:7"):
            await store.replace_tools(a_state("b"), stored(a_tool("read", "b", place="b.py:7")))

    async def test_one_name_twice_in_one_source_is_refused(self, store: Store) -> None:
        twice = [a_tool("read", "a", place="a.py:3"), a_tool("read", "a", place="a.py:9")]
        with pytest.raises(NameConflictError, match=r"a\.py:3.*a\.py:9"):
            await store.replace_tools(a_state("a"), stored(*twice))
        assert await store.names() == []

    async def test_of_two_that_claim_one_name_at_once_one_is_refused(
        self, two_stores: tuple[Store, Store]
    ) -> None:
        syncs = [
            each.replace_tools(a_state(source), stored(a_tool("read", source)))
            for each, source in zip(two_stores, "ab", strict=True)
        ]
        outcomes = await asyncio.gather(*syncs, return_exceptions=True)
        assert sorted(map(type, outcomes), key=str) == sorted([bool, NameConflictError], key=str)
        assert await two_stores[0].names() == ["read"]

    async def test_a_refused_source_changes_nothing(self, store: Store) -> None:
        await store.replace_tools(a_state("a"), stored(a_tool("read", "a")))
        await store.replace_tools(a_state("b"), stored(a_tool("b.old", "b")))
        version = await store.catalog_version()
        with pytest.raises(NameConflictError):
            await store.replace_tools(a_state("b"), stored(a_tool("b.new", "b"), a_tool("read", "b")))
        assert await store.names() == ["b.old", "read"]
        assert [summary.name for summary in await store.search("old", 5)] == ["b.old"]
        assert await store.catalog_version() == version

    async def test_a_forgotten_source_leaves_nothing(self, store: Store) -> None:
        await store.replace_tools(a_state(), stored(a_tool("files.read")))
        await store.forget_source("files")
        assert await store.names() == []
        assert await store.sources() == {}
        assert await store.search("read", 5) == []

    async def test_states_tell_counts_and_failures(self, store: Store) -> None:
        tools = [
            StoredTool("files.read", a_tool("files.read"), a_tool("files.read", description="new")),
            StoredTool("files.wipe", None, a_tool("files.wipe")),
        ]
        await store.replace_tools(a_state(signature="s1"), tools)
        await store.note_failure("files", "mcp", "no answer \udcff")
        await store.note_failure("dead", "mcp", "refused")
        states = await store.sources()
        assert states["files"] == SourceState("files", "mcp", "s1", 100.0, 1, 2, r"no answer \udcff")
        assert states["dead"] == SourceState("dead", "mcp", "", None, 0, 0, "refused")

    async def test_a_sync_that_succeeds_clears_the_failure(self, store: Store) -> None:
        await store.note_failure("files", "mcp", "no answer")
        await store.replace_tools(a_state(), stored(a_tool("files.read")))
        assert (await store.sources())["files"].error is None

    async def test_a_source_that_has_the_same_tools_is_noted_without_a_new_version(
        self, store: Store
    ) -> None:
        await store.replace_tools(a_state(), stored(a_tool("files.read")))
        await store.note_failure("files", "mcp", "no answer")
        version = await store.catalog_version()
        left_out = (LeftOut("files.odd", "no schema"),)
        await store.note_synced(dataclasses.replace(a_state(), synced_at=200.0, left_out=left_out))
        state = (await store.sources())["files"]
        assert (state.synced_at, state.error, state.left_out) == (200.0, None, left_out)
        assert await store.names() == ["files.read"]
        assert await store.catalog_version() == version

    async def test_what_was_dropped_of_schemas_is_kept_with_the_tool_and_with_its_source(
        self, store: Store
    ) -> None:
        given = a_tool("files.read")
        repaired = Repaired({"type": "object"}, None, ("input schema: type: must be types of JSON",))
        tool = dataclasses.replace(given, spec=dataclasses.replace(given.spec, repaired=repaired))
        loosened = (Loosened("files.read", "an unknown type"),)
        await store.replace_tools(dataclasses.replace(a_state(), loosened=loosened), stored(tool))
        found = await store.tool("files.read")
        assert found is not None
        assert (found.spec.repaired, found.input_schema) == (repaired, {"type": "object"})
        # What the source gave is there as it was.
        assert (found.spec.input_schema, found.fingerprint) == (given.spec.input_schema, given.fingerprint)
        (listed,) = await store.stored_tools("files")
        assert listed.current is not None
        assert listed.current.spec.repaired == repaired
        state = (await store.sources())["files"]
        assert (state.left_out, state.loosened) == ((), loosened)

    async def test_the_state_of_one_source_can_be_asked_for(self, store: Store) -> None:
        await store.replace_tools(a_state("a"), stored(a_tool("a.read", "a")))
        await store.replace_tools(a_state("b"), stored(a_tool("b.read", "b")))
        everything = await store.sources()
        assert await store.sources("b") == {"b": everything["b"]}
        assert await store.sources("none") == {}

    async def test_the_version_changes_with_the_tools_and_not_with_calls(self, store: Store) -> None:
        first = await store.catalog_version()
        await store.replace_tools(a_state(), stored(a_tool("files.read")))
        second = await store.catalog_version()
        await store.save_call(a_record("k"))
        assert first != second
        assert await store.catalog_version() == second
        await store.forget_source("files")
        assert await store.catalog_version() != second

    async def test_another_store_object_sees_a_change_at_once(self, two_stores: tuple[Store, Store]) -> None:
        one, other = two_stores
        before = await other.catalog_version()
        await one.replace_tools(a_state(), stored(a_tool("files.read")))
        assert await other.catalog_version() != before
        assert await other.tool("files.read") == a_tool("files.read")


class TestCalls:
    async def test_a_record_comes_back_as_it_was_saved(self, store: Store) -> None:
        record = a_record(
            "abc", arguments={"big": 2**80, "name": "\udcff", "deep": [{"x": None}]}, outcome="timeout",
            error={"category": "timeout", "message": "no answer"}, parent="abb", principal="ann",
            result={"content": [{"type": "text", "text": "é\ud800"}], "structured": None},
        )  # fmt: skip
        await store.save_call(record)
        assert await store.call("abc") == record

    async def test_arguments_that_are_not_json_are_recorded_as_text(self, store: Store) -> None:
        await store.save_call(a_record("abc", arguments={"path": Path("/x"), "many": {1}}))
        found = await store.call("abc")
        assert found is not None
        assert found.arguments == {"path": "/x", "many": "{1}"}

    async def test_calls_are_listed_newest_first_and_limited(self, store: Store) -> None:
        for number in range(5):
            await store.save_call(a_record(f"k{number}"))
        assert [record.key for record in await store.calls(limit=3)] == ["k4", "k3", "k2"]
        assert await store.calls(limit=0) == []
        assert len(await store.calls(limit=-1)) == 5

    async def test_calls_are_filtered_by_tool_and_outcome(self, store: Store) -> None:
        await store.save_call(a_record("k1", tool="a.x", outcome="ok"))
        await store.save_call(a_record("k2", tool="a.y", outcome="timeout"))
        await store.save_call(a_record("k3", tool="a.y", outcome="cached"))
        await store.save_call(a_record("k4", tool="a.y", outcome="tool"))
        await store.save_call(a_record("k5", tool="a.z", outcome="paused"))  # waits, and has not failed

        async def keys(**filters: str) -> list[str]:
            return [record.key for record in await store.calls(limit=9, **filters)]

        assert await keys(tool="a.y") == ["k4", "k3", "k2"]
        assert await keys(outcome="timeout") == ["k2"]
        assert await keys(outcome="failed") == ["k4", "k2"]
        assert await keys(tool="a.y", outcome="cached") == ["k3"]
        assert await keys(tool="none") == []

    async def test_calls_are_filtered_by_who_when_and_how_long_and_go_on_page_by_page(
        self, store: Store
    ) -> None:
        for number in range(6):
            fields = {"principal": "ann" if number % 2 else "bob", "source": f"s{number // 3}"}
            await store.save_call(
                a_record(f"k{number}", started_at=100.0 + number, duration=number, **fields)
            )

        async def keys(limit: int = 9, **conditions: Any) -> list[str]:
            found = await store.calls(limit=limit, where=CallFilter(**conditions))
            return [record.key for record in found]

        assert await keys(principal="ann") == ["k5", "k3", "k1"]
        assert await keys(source="s0") == ["k2", "k1", "k0"]
        assert await keys(since=102.0, until=104.0) == ["k3", "k2"]
        assert await keys(slower=4) == ["k5", "k4"]
        assert await keys(principal="ann", slower=3.5, since=1.0) == ["k5"]
        assert await keys(limit=2, principal="bob") == ["k4", "k2"]
        assert await keys(limit=2, principal="bob", before="k2") == ["k0"]
        assert await keys(before="k0") == []
        assert await keys(before="nothing") == []
        assert await keys(run="r1") == []
        await store.save_call(a_record("k6", run="r1", trace="0af7651916cd43dd8448eb211c80319c"))
        assert await keys(run="r1") == ["k6"]
        kept = await store.call("k6")
        assert kept is not None
        assert (kept.run, kept.trace) == ("r1", "0af7651916cd43dd8448eb211c80319c")

    async def test_the_times_of_calls_are_those_of_the_newest(self, store: Store) -> None:
        assert await store.call_timings(limit=10, since=0) == []
        for number in range(6):
            principal = "ann" if number % 2 else "bob"
            record = a_record(f"k{number}", started_at=100.0 + number, duration=0.5, principal=principal)
            await store.save_call(record)
        found = await store.call_timings(limit=10, since=103.0)
        assert [timing.started_at for timing in found] == [105.0, 104.0, 103.0]
        assert found[0] == CallTiming(105.0, 0.5, "ok")
        assert len(await store.call_timings(limit=2, since=0)) == 2
        ann = await store.call_timings(limit=10, since=0, principal="ann")
        assert [timing.started_at for timing in ann] == [105.0, 103.0, 101.0]
        assert await store.call_timings(limit=10, since=0, source="other") == []

    async def test_a_call_is_found_by_a_beginning_that_only_it_has(self, store: Store) -> None:
        await store.save_call(a_record("abc1"))
        await store.save_call(a_record("abd2"))
        found = await store.call("abc")
        assert found is not None
        assert found.key == "abc1"
        assert await store.call("x") is None
        with pytest.raises(NotFoundError, match="several calls begin with 'ab'"):
            await store.call("ab")

    async def test_a_whole_key_wins_over_longer_ones(self, store: Store) -> None:
        await store.save_call(a_record("abc"))
        await store.save_call(a_record("abcd"))
        found = await store.call("abc")
        assert found is not None
        assert found.key == "abc"

    async def test_wildcards_in_a_key_mean_nothing(self, store: Store) -> None:
        await store.save_call(a_record("abc"))
        assert await store.call("a%") is None
        assert await store.call("*") is None

    async def test_one_failing_save_does_not_fail_the_others(self, store: Store) -> None:
        good = [a_record(f"k{number}") for number in range(50)]
        bad = [dataclasses.replace(a_record("bad"), outcome=cast(str, None)) for _ in range(2)]
        saves = [store.save_call(record) for record in [*good, *bad]]
        outcomes = await asyncio.gather(*saves, return_exceptions=True)
        assert outcomes[:50] == [None] * 50
        assert all(isinstance(outcome, StoreError) for outcome in outcomes[50:])
        assert len(await store.calls(limit=100)) == 50

    async def test_a_record_whose_saver_gave_up_is_kept(self, store: Store) -> None:
        saving = asyncio.ensure_future(store.save_call(a_record("given-up")))
        await asyncio.sleep(0)
        saving.cancel()
        await asyncio.gather(saving, return_exceptions=True)
        await store.save_call(a_record("later"))
        assert await store.call("given-up") == a_record("given-up")

    async def test_another_store_object_sees_a_record_at_once(self, two_stores: tuple[Store, Store]) -> None:
        one, other = two_stores
        await one.save_call(a_record("k"))
        assert await other.call("k") == a_record("k")
        assert await other.calls(limit=5) == [a_record("k")]

    async def test_a_closed_store_says_so(self, store: Store) -> None:
        await store.close()
        with pytest.raises(StoreError, match="closed"):
            await store.save_call(a_record("k"))
        with pytest.raises(StoreError, match="closed"):
            await store.names()
        await store.close()


class TestCache:
    RESULT = Result(
        (Block("text", text="x"), Block("image", data="aGk=", mime_type="image/png")), {"n": 2**70}
    )

    async def test_a_result_is_found_until_it_expires(self, store: Store) -> None:
        await store.cache("k", self.RESULT, expires_at=20.0, now=10.0)
        found = await store.cached("k", now=19.9)
        assert found == dataclasses.replace(self.RESULT, cached=True)
        assert await store.cached("k", now=20.0) is None
        assert await store.cached("other", now=11.0) is None

    async def test_a_result_from_before_the_clock_was_set_back_is_not_good_any_more(
        self, store: Store
    ) -> None:
        await store.cache("k", self.RESULT, expires_at=110.0, now=100.0)
        assert await store.cached("k", now=101.0, ttl=10.0) is not None
        assert await store.cached("k", now=41.0, ttl=10.0) is None

    async def test_null_as_structured_data_is_not_taken_for_none(self, store: Store) -> None:
        await store.cache("k", Result(structured=None, has_structured=True), expires_at=20.0, now=10.0)
        found = await store.cached("k", now=11.0)
        assert found is not None
        assert found.has_structured

    async def test_a_newer_result_replaces_the_older(self, store: Store) -> None:
        await store.cache("k", Result(structured=1), expires_at=20.0, now=10.0)
        await store.cache("k", Result(structured=2), expires_at=30.0, now=10.0)
        found = await store.cached("k", now=25.0)
        assert found is not None
        assert found.structured == 2

    async def test_expired_results_are_dropped_when_another_is_kept(self, store: Store) -> None:
        await store.cache("old", self.RESULT, expires_at=20.0, now=10.0)
        await store.cache("new", self.RESULT, expires_at=40.0, now=30.0)
        assert await store.clear_cache() == 1

    async def test_a_huge_result_is_not_kept(self, store: Store) -> None:
        await store.cache("k", Result((Block("text", text="x" * 2_000_000),)), expires_at=20.0, now=10.0)
        assert await store.cached("k", now=11.0) is None

    async def test_another_store_object_finds_the_result(self, two_stores: tuple[Store, Store]) -> None:
        one, other = two_stores
        await one.cache("k", self.RESULT, expires_at=20.0, now=10.0)
        assert await other.cached("k", now=11.0) == dataclasses.replace(self.RESULT, cached=True)

    async def test_one_key_cached_many_times_at_once_is_kept_once(self, store: Store) -> None:
        await store.cache("old", self.RESULT, expires_at=5.0, now=1.0)
        puts = [store.cache("k", Result(structured=n), expires_at=20.0, now=10.0) for n in range(20)]
        await asyncio.gather(*puts)
        assert await store.clear_cache() == 1

    async def test_clearing_tells_how_many_there_were(self, store: Store) -> None:
        await store.cache("a", self.RESULT, expires_at=20.0, now=10.0)
        await store.cache("b", self.RESULT, expires_at=20.0, now=10.0)
        assert await store.clear_cache() == 2
        assert await store.cached("a", now=11.0) is None
