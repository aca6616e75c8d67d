from __future__ import annotations

import asyncio
import dataclasses
import itertools
import random
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.catalog.diff import SyncReport, changed_fields, merge, same_tools, synced_together
from spindle.catalog.naming import MAX_LENGTH, name_tools
from spindle.domain.source import SourceConfig
from spindle.domain.tool import Repaired, Tool, ToolSpec
from spindle.errors import NameConflictError
from spindle.ports.store import StoredTool

CONFIG = SourceConfig(kind="x")


def named(*remote: str, config: SourceConfig = CONFIG) -> dict[str, str]:
    """Catalog name by the source's own."""
    specs = [ToolSpec(name, place=f"place {position}") for position, name in enumerate(remote)]
    return {tool.spec.remote_name: tool.name for tool in name_tools("web", config, specs)}


def test_a_tool_is_named_after_its_source_unless_told_otherwise() -> None:
    assert named("read", "a.b-c_D9") == {"read": "web.read", "a.b-c_D9": "web.a.b-c_D9"}
    assert named("read", config=SourceConfig(kind="x", prefix=False)) == {"read": "read"}


def test_illegal_characters_are_replaced() -> None:
    assert named("read file!", "日本") == {"read file!": "web.read_file_", "日本": "web._"}
    assert named("") == {"": "web._"}


def test_names_that_become_one_are_kept_apart_in_whatever_order_they_come() -> None:
    remote = ["a b", "a/b", "a_b", "c d"]
    first = named(*remote)
    assert first["a_b"] == "web.a_b"
    assert first["c d"] == "web.c_d"
    assert len(set(first.values())) == 4
    assert all(name.startswith("web.a_b_") for name in (first["a b"], first["a/b"]))
    for seed in range(5):
        shuffled = random.Random(seed).sample(remote, k=4)
        assert named(*shuffled) == first


def test_long_names_are_cut_and_stay_apart() -> None:
    names = named("x" * 500, "x" * 501, "x" * MAX_LENGTH)
    assert len(set(names.values())) == 3
    assert all(len(name.removeprefix("web.")) <= MAX_LENGTH for name in names.values())


@given(remote=st.lists(st.text(max_size=12) | st.text("a b/._", max_size=4), unique=True), seed=st.randoms())
def test_every_name_is_legal_unique_and_stable(remote: list[str], seed: random.Random) -> None:
    names = named(*remote)
    assert len(set(names.values())) == len(remote)
    assert all(re.fullmatch(r"web\.[A-Za-z0-9_.-]{1,128}", name) for name in names.values())
    seed.shuffle(remote)
    assert named(*remote) == names


def test_one_name_twice_is_an_error_that_names_both_places() -> None:
    with pytest.raises(NameConflictError, match="'read': one in place 0, one in place 2") as caught:
        named("read", "write", "read")
    assert caught.value.source == "web"


# --- differences


def a_tool(name: str, **spec: Any) -> Tool:
    made = ToolSpec(name, **spec)
    return Tool(f"web.{name}", "web", "x", made, made.fingerprint)


def known(*tools: Tool) -> list[StoredTool]:
    return [StoredTool(tool.name, tool) for tool in tools]


def test_the_changed_parts_of_a_definition_are_named() -> None:
    before = a_tool("a", input_schema={"properties": {"x": {"type": "string"}, "gone": {}}}, tags=("t",))
    after = a_tool(
        "a", input_schema={"properties": {"x": {"type": "integer"}, "new": {}}}, title="T", tags=("t",)
    )
    assert changed_fields(before, after) == (
        "input_schema.properties.x.type",
        "input_schema.properties.gone",
        "input_schema.properties.new",
        "title",
    )
    assert changed_fields(before, before) == ()
    assert changed_fields(None, after) == ("new",)


def test_no_more_than_twenty_changes_are_named() -> None:
    before = a_tool("a", input_schema={f"k{number}": 1 for number in range(50)})
    assert len(changed_fields(before, a_tool("a", input_schema={}))) == 20


def test_a_place_that_moved_is_no_change_but_is_kept() -> None:
    before, after = a_tool("a", place="a.py:1"), a_tool("a", place="a.py:9")
    merged, report = merge("web", known(before), [after], {"web.a": before.fingerprint})
    assert not report.differs
    assert merged == known(after)


NAMES = st.lists(st.sampled_from("abcdef"), unique=True)


@given(old=NAMES, new=NAMES, changed=st.sets(st.sampled_from("abcdef")), trusted=st.booleans())
def test_every_tool_is_either_stored_held_or_removed(
    old: list[str], new: list[str], changed: set[str], trusted: bool
) -> None:
    found = [a_tool(name, description="new" if name in changed else "") for name in new]
    before = known(*(a_tool(name) for name in old))
    pins = {stored.name: stored.current.fingerprint for stored in before if stored.current}
    merged, report = merge("web", before, found, None if trusted else pins)
    assert [stored.name for stored in merged] == [tool.name for tool in found]
    assert report.removed == sorted(f"web.{name}" for name in old if name not in new)
    differing = {f"web.{name}" for name in new if name in changed or name not in old}
    told = {*report.added, *(change.name for change in (*report.changed, *report.held))}
    assert told == differing
    assert bool(report.held) == (bool(differing) and not trusted)
    assert report.tools == sum(1 for stored in merged if stored.current)
    if trusted:
        assert [stored.current for stored in merged] == found


def test_accepting_nothing_accepts_nothing() -> None:
    for accept in ((), [], False, ["web.other"]):
        merged, report = merge("web", known(a_tool("a")), [a_tool("b")], {}, accept)
        assert [change.name for change in report.held] == ["web.b"]
        assert merged[0].current is None


def test_a_schema_that_is_repaired_otherwise_than_before_is_stored_anew() -> None:
    spec = ToolSpec("read", input_schema={"type": "objekt"})
    repaired = dataclasses.replace(spec, repaired=Repaired({"type": "object"}, None, ("an unknown type",)))
    before, after = (
        [StoredTool("web.read", Tool("web.read", "web", "x", each, each.fingerprint))]
        for each in (spec, repaired)
    )
    assert same_tools(after, after)
    assert not same_tools(before, after)


# --- many at once


async def test_sources_that_are_synced_together_leave_turns_to_others() -> None:
    begun = 0
    seen: list[int] = []

    async def sync(name: str) -> SyncReport:
        nonlocal begun
        begun += 1
        return SyncReport(name)

    async def other() -> None:
        while True:
            seen.append(begun)
            await asyncio.sleep(0)

    another = asyncio.create_task(other())
    names = [f"source{number}" for number in range(200)]
    reports = await synced_together(names, sync, ())
    another.cancel()
    assert [report.source for report in reports] == names
    assert max(later - earlier for earlier, later in itertools.pairwise(seen)) <= 2


async def test_a_cancelled_sync_of_many_ends_those_that_began() -> None:
    begun: list[str] = []
    ended: list[str] = []

    async def sync(name: str) -> SyncReport:
        begun.append(name)
        if len(begun) == 3:
            syncing.cancel()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)
        raise AssertionError

    syncing = asyncio.create_task(synced_together([f"s{number}" for number in range(10)], sync, ()))
    with pytest.raises(asyncio.CancelledError):
        await syncing
    while len(ended) < len(begun):
        await asyncio.sleep(0)
    assert len(begun) < 10
