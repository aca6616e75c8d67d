from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from scripted_source import SCRIPTS, Script

import spindle
from spindle.app import Spindle
from spindle.catalog.version import StoredVersion
from spindle.domain.tool import ToolSpec
from spindle.errors import ConfigurationError, ConnectionFailedError, NameConflictError, NotFoundError
from spindle.plugins import kinds, source_class

if TYPE_CHECKING:
    from spindle.ports.store import ToolStore


async def names(app: Spindle) -> list[str]:
    return [summary.name for summary in await app.tools()]


# --- a kind that is not ours


async def test_a_kind_from_an_entry_point_works_from_end_to_end(workspace: Any) -> None:
    workspace.source("web", "greet", greeting="${WORD:-hi}")
    async with workspace.open() as app:
        [report] = await app.sync()
        assert report.added == ["web.greet"]
        assert (await app.call("web.greet")).text == "hi from greet"
        assert [summary.name for summary in await app.search("greet")] == ["web.greet"]
        assert (await app.tools(kind="scripted"))[0].source == "web"
    assert "scripted" in kinds()


async def test_a_wrong_setting_of_such_a_kind_is_named_by_its_path(workspace: Any) -> None:
    workspace.source("web", greetin="x")
    async with workspace.open() as app:
        with pytest.raises(ConfigurationError, match=r"sources\.web\.greetin: .*did you mean `greeting`"):
            await app.sync()


async def test_a_plugin_that_cannot_be_loaded_is_named_with_the_reason(workspace: Any) -> None:
    workspace.source("web")
    workspace.sources["bad"] = {"kind": "broken"}
    async with workspace.open() as app:
        with pytest.raises(
            ConfigurationError, match=r"'broken'.*nowhere_at_all:Source.*ModuleNotFoundError"
        ) as caught:
            await app.sync()
    assert "repair or uninstall" in (caught.value.hint or "")


async def test_a_plugin_that_is_no_kind_of_source_is_told_what_to_subclass(workspace: Any) -> None:
    workspace.sources["bad"] = {"kind": "duck"}
    with pytest.raises(ConfigurationError, match=r"'duck'.*scripted_source:Script.*is not a kind") as caught:
        async with workspace.open() as app:
            await app.sync()
    assert "spindle.ports.source.Source" in (caught.value.hint or "")


def test_a_kind_that_nobody_offers_has_no_class() -> None:
    assert source_class("nothing") is None
    assert source_class("python") is not None


# --- syncing again


async def test_a_sync_that_finds_the_same_changes_nothing_for_others(workspace: Any) -> None:
    script = workspace.source("web", "greet")
    async with workspace.open() as app:
        await app.sync()
        version = await app.catalog.stored_version.number()
        before = (await app.catalog.states())["web"].synced_at
        await app.sync()
        assert await app.catalog.stored_version.number() == version
        assert ((await app.catalog.states())["web"].synced_at or 0) > (before or 0)
        script.offer("greet", place="moved.py:3")
        [report] = await app.sync()
        assert not report.differs
        assert (await app.show("greet")).spec.place == "moved.py:3"
        assert await app.catalog.stored_version.number() != version


async def test_a_number_that_was_asked_for_before_a_change_is_not_kept() -> None:
    asked, may_answer = asyncio.Event(), asyncio.Event()
    numbers = [1, 2]

    class Store:
        def version_at_once(self) -> int | None:
            return None

        async def catalog_version(self) -> int:
            number = numbers.pop(0)
            asked.set()
            await may_answer.wait()
            return number

    version = StoredVersion(cast("ToolStore", Store()))
    before = asyncio.create_task(version.number())
    await asked.wait()
    version.changed()
    may_answer.set()
    assert await before == 1
    assert not version.is_still(1)
    assert await version.number() == 2


# --- finding


async def test_opening_and_listing_contact_no_source(workspace: Any) -> None:
    script = workspace.source("web", "greet")
    async with workspace.open() as app:
        await app.sync()
    script.refuses_to_open = AssertionError("a source was contacted")
    async with workspace.open() as app:
        assert await names(app) == ["web.greet"]
        assert [summary.name for summary in await app.search("greet")] == ["web.greet"]
        assert (await app.show("greet")).name == "web.greet"
        assert (await app.catalog.states())["web"].tool_count == 1
        assert app.catalog.unsynced() == []
    assert script.opened == 1


async def test_an_unsynced_source_is_synced_when_its_name_is_first_used(workspace: Any) -> None:
    web, other = workspace.source("web", "greet"), workspace.source("other", "x")
    async with workspace.open() as app:
        assert app.catalog.unsynced() == ["other", "web"]
        assert (await app.catalog.states())["web"].synced_at is None
        assert (await app.show("web.greet")).name == "web.greet"
        assert (web.listed, other.listed) == (1, 0)
        await app.show("web.greet")
        assert web.listed == 1


async def test_a_plain_name_asks_every_source_that_was_not_asked_yet(workspace: Any) -> None:
    workspace.source("web", "greet")
    workspace.source("other", "wave")
    async with workspace.open() as app:
        assert (await app.show("wave")).name == "other.wave"


async def test_many_who_need_one_unsynced_source_share_one_sync(workspace: Any) -> None:
    web = workspace.source("web", "greet")
    web.gate = asyncio.Event()
    async with workspace.open() as app:
        finds = [asyncio.ensure_future(app.show("web.greet")) for _ in range(10)]
        while web.listed == 0:
            await asyncio.sleep(0)
        finds[0].cancel()
        web.gate.set()
        found = await asyncio.gather(*finds[1:])
    assert {tool.name for tool in found} == {"web.greet"}
    assert web.listed == 1


async def test_a_source_that_failed_is_tried_again_when_it_is_asked_for_by_name(workspace: Any) -> None:
    web = workspace.source("web", "greet")
    web.refuses_to_open = ConnectionFailedError("no answer", sent=False)
    async with workspace.open() as app:
        with pytest.raises(ConnectionFailedError, match="its source could not be read: no answer") as failed:
            await app.show("web.greet")
        assert not failed.value.sent
        with pytest.raises(NotFoundError):
            await app.show("greet")
        assert web.opened == 1
        web.refuses_to_open = None
        assert (await app.call("web.greet")).text == "hello from greet"
    assert workspace.notes == ["web: no answer"]


async def test_a_wrong_name_is_answered_with_the_right_one(workspace: Any) -> None:
    workspace.source("web", "send_message", "read")
    async with workspace.open() as app:
        await app.sync()
        for wrong in ("web.send_mesage", "send_mesage", "wbe.send_message"):
            with pytest.raises(NotFoundError, match=wrong) as caught:
                await app.show(wrong)
            assert caught.value.hint == "did you mean 'web.send_message'?"
            assert caught.value.details == "web.send_message"
        with pytest.raises(NotFoundError) as caught:
            await app.show("web.zzzzzz")
        assert caught.value.hint == 'try `search("zzzzzz")`'
        with pytest.raises(NotFoundError):
            await app.show("\udcff")


async def test_the_last_part_of_a_name_is_enough_where_only_one_has_it(workspace: Any) -> None:
    workspace.source("web", "greet", "read")
    workspace.source("files", "read")
    async with workspace.open() as app:
        await app.sync()
        assert (await app.show("greet")).name == "web.greet"
        with pytest.raises(NotFoundError, match="several tools are called 'read'") as caught:
            await app.show("read")
        assert caught.value.hint == "say which: files.read, web.read"


async def test_a_source_that_another_process_added_meanwhile_is_not_forgotten(workspace: Any) -> None:
    workspace.source("old", "one")
    early = workspace.open()  # reads its settings now, and opens when it is entered
    workspace.source("new", "two")
    async with workspace.open() as app:
        await app.sync()
    async with early:
        pass
    async with workspace.open() as app:
        assert [tool.name for tool in await app.tools()] == ["new.two", "old.one"]


async def test_a_removed_source_is_forgotten(workspace: Any) -> None:
    workspace.source("web", "greet")
    workspace.source("other", "x")
    async with workspace.open() as app:
        await app.sync()
    del workspace.sources["web"]
    async with workspace.open() as app:
        assert await names(app) == ["other.x"]
        assert list(await app.catalog.states()) == ["other"]
        with pytest.raises(NotFoundError, match="there is no source 'wbe'"):
            await app.sync("wbe")


async def test_changed_settings_make_a_source_unsynced(workspace: Any) -> None:
    web = workspace.source("web", "greet", "wave")
    async with workspace.open() as app:
        await app.sync()
    workspace.sources["web"]["include"] = "wave"
    async with workspace.open() as app:
        assert app.catalog.unsynced() == ["web"]
        await app.sync()
        assert await names(app) == ["web.wave"]
    assert web.listed == 2


async def test_a_source_that_can_tell_is_synced_when_its_definition_changed(workspace: Any) -> None:
    web = workspace.source("web", "greet", description="web")
    web.signature = "1"
    async with workspace.open() as app:
        assert await names(app) == ["web.greet"]
        web.offer("greet", "wave")
        assert await names(app) == ["web.greet"]
        web.signature = "2"
        assert await names(app) == ["web.greet", "web.wave"]
        web.failure = ConnectionFailedError("gone")
        web.signature = "3"
        assert await names(app) == ["web.greet", "web.wave"]
        listed = web.listed
        await app.tools()
        assert web.listed == listed


# --- syncing


async def test_a_sync_tells_what_was_added_removed_and_changed(workspace: Any) -> None:
    web = workspace.source("web", "a", "b", "c")
    async with workspace.open() as app:
        [first] = await app.sync()
        web.tools = [
            ToolSpec("a", "does a"),
            ToolSpec("b", "other", {"type": "object", "properties": {"x": {"type": "integer"}}}),
            ToolSpec("d"),
        ]
        [second] = await app.sync("web")
        [third] = await app.sync("web", "web")
    assert (first.added, first.tools, first.differs) == (["web.a", "web.b", "web.c"], 3, True)
    assert second.added == ["web.d"]
    assert second.removed == ["web.c"]
    assert [change.to_dict() for change in second.changed] == [
        {"name": "web.b", "fields": ["description", "input_schema.properties.x"]}
    ]
    assert not third.differs
    assert second.to_dict()["removed"] == ["web.c"]


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (ConnectionFailedError("no answer"), "no answer"),
        (KeyError("tools"), "'web' could not list its tools: KeyError('tools')"),
    ],
)
async def test_a_source_that_fails_keeps_its_tools_and_does_not_sink_the_others(
    workspace: Any, failure: Exception, message: str
) -> None:
    web, other = workspace.source("web", "greet"), workspace.source("other", "x")
    async with workspace.open() as app:
        await app.sync()
        web.failure = failure
        other.offer("x", "y")
        reports = {report.source: report for report in await app.sync()}
        assert reports["web"].error is not None
        assert reports["web"].error["message"] == message
        assert reports["web"].error["source"] == "web"
        assert reports["other"].added == ["other.y"]
        assert await names(app) == ["other.x", "other.y", "web.greet"]
        assert (await app.catalog.states())["web"].error == message
        assert (await app.call("web.greet")).text == "hello from greet"


async def test_a_source_that_does_not_list_its_tools_in_time_fails(workspace: Any) -> None:
    web = workspace.source("web", "greet", timeout=0.01)
    web.gate = asyncio.Event()
    async with workspace.open() as app:
        [report] = await app.sync()
    assert report.error is not None
    assert report.error["category"] == "timeout"
    assert report.error["hint"] == "raise sources.web.timeout"


async def test_two_plain_names_from_two_sources_are_a_conflict(workspace: Any) -> None:
    workspace.source("web", prefix=False).tools = [ToolSpec("read", place="web place")]
    workspace.source("files", prefix=False).tools = [ToolSpec("read", place="files place")]
    async with workspace.open() as app:
        await app.sync("web")
        [report] = await app.sync("files")
        assert report.error is not None
        assert "one in web place, one in files place" in report.error["message"]
        assert report.error["category"] == NameConflictError.category
        assert await names(app) == ["read"]


@pytest.mark.parametrize("together", [Spindle.sync, Spindle.tools], ids=["sync", "listing"])
async def test_a_name_that_another_source_gives_up_meanwhile_is_free(workspace: Any, together: Any) -> None:
    web = workspace.source("web", "read", prefix=False, description="web")
    web.signature = "old"
    async with workspace.open() as app:
        await app.sync("web")
    files = workspace.source("files", "read", prefix=False, description="files")
    files.signature = "first"
    web.offer("fetch")
    web.signature, web.gate = "new", asyncio.Event()
    async with workspace.open() as app:
        asked = asyncio.create_task(together(app))
        while "files" not in app.catalog.conflicts:
            await asyncio.sleep(0)
        web.gate.set()
        await asked
        assert await names(app) == ["fetch", "read"]
        assert not app.catalog.conflicts
    assert workspace.notes == []


async def test_include_and_exclude_choose_among_the_tools(workspace: Any) -> None:
    workspace.source("web", "read", "read_all", "write", include=["read.*", "write"], exclude=".*_all")
    async with workspace.open() as app:
        await app.sync()
        assert await names(app) == ["web.read", "web.write"]


# --- pinned


async def test_a_pinned_source_s_first_tools_are_trusted_and_later_changes_are_held(workspace: Any) -> None:
    web = workspace.source("web", "a", "b", pinned=True)
    async with workspace.open() as app:
        [first] = await app.sync()
        assert first.added == ["web.a", "web.b"]
        web.tools = [ToolSpec("a", "now evil"), ToolSpec("b", "does b"), ToolSpec("c", "new")]
        [second] = await app.sync()
        held = [change.to_dict() for change in second.held]
        assert held == [{"name": "web.a", "fields": ["description"]}, {"name": "web.c", "fields": ["new"]}]
        assert (second.added, second.changed, second.tools) == ([], [], 2)
        assert (await app.show("web.a")).description == "does a"
        with pytest.raises(NotFoundError, match="waits to be accepted") as caught:
            await app.show("web.c")
        assert caught.value.hint_for("shell") == "`spindle sync web --accept web.c`, once you trust it"
        assert (await app.catalog.states())["web"].held_count == 2

        [third] = await app.sync(accept=["web.a"])
        assert [change.name for change in third.changed] == ["web.a"]
        assert [change.name for change in third.held] == ["web.c"]
        assert (await app.show("web.a")).description == "now evil"
        [fourth] = await app.sync(accept=True)
        assert fourth.added == ["web.c"]
        assert (await app.call("web.c")).text == "hello from c"


async def test_only_the_definition_that_was_held_is_accepted(workspace: Any) -> None:
    web = workspace.source("web", "a", pinned=True)
    async with workspace.open() as app:
        await app.sync()
        web.offer("a", description="harmless")
        await app.sync()
        web.offer("a", description="changed again while a person was reading")
        [report] = await app.sync(accept=["web.a"])
        assert [change.name for change in report.held] == ["web.a"]
        assert (await app.show("web.a")).description == "does a"
        [report] = await app.sync(accept=True)
        assert [change.name for change in report.changed] == ["web.a"]


async def test_a_pinned_source_cannot_start_over_by_offering_nothing(workspace: Any) -> None:
    web = workspace.source("web", "a", pinned=True)
    async with workspace.open() as app:
        await app.sync()
        web.offer()
        [report] = await app.sync()
        assert report.removed == ["web.a"]
        web.offer("a", description="now evil")
        [report] = await app.sync()
        assert [change.name for change in report.held] == ["web.a"]
        assert await names(app) == []


async def test_a_pinned_source_whose_first_sync_failed_is_still_trusted_once(workspace: Any) -> None:
    web = workspace.source("web", "a", pinned=True)
    web.failure = ConnectionFailedError("no answer")
    async with workspace.open() as app:
        await app.sync()
        web.failure = None
        [report] = await app.sync()
        assert report.added == ["web.a"]


async def test_a_definition_that_goes_back_is_no_longer_held(workspace: Any) -> None:
    web = workspace.source("web", "a", pinned=True)
    async with workspace.open() as app:
        await app.sync()
        web.offer("a", description="other")
        await app.sync()
        web.offer("a")
        [report] = await app.sync()
        assert not report.differs
        assert (await app.catalog.states())["web"].held_count == 0


async def test_accepting_a_name_that_is_not_there_is_noted(workspace: Any) -> None:
    workspace.source("web", "greet", pinned=True)
    async with workspace.open() as app:
        await app.sync(accept=["web.greeet"])
    assert workspace.notes == ["no tool 'web.greeet' was accepted; did you mean 'web.greet'?"]


# --- notices and other processes


async def test_many_notices_become_few_refreshes_and_listeners_are_told(workspace: Any) -> None:
    web = workspace.source("web", "a")
    reports: asyncio.Queue[Any] = asyncio.Queue()
    async with workspace.open() as app:
        await app.sync()
        app.catalog.on_change(reports.put_nowait)
        web.gate = asyncio.Event()
        web.offer("a", "b")
        for _ in range(20):
            web.changed()
        while web.listed < 2:
            await asyncio.sleep(0)
        for _ in range(20):
            web.changed()
        web.gate.set()
        first, second = await reports.get(), await reports.get()
        assert first.added == ["web.b"]
        assert not second.differs
        assert web.listed == 3
        assert (await app.show("web.b")).name == "web.b"


async def test_a_refresh_that_fails_keeps_the_tools_and_is_noted(workspace: Any) -> None:
    web = workspace.source("web", "a")
    reports: asyncio.Queue[Any] = asyncio.Queue()
    async with workspace.open() as app:
        await app.sync()
        app.catalog.on_change(reports.put_nowait)
        web.failure = ConnectionFailedError("gone")
        web.changed()
        assert (await reports.get()).error["message"] == "gone"
        assert await names(app) == ["web.a"]
    assert workspace.notes == ["web: could not refresh its tools: gone"]


async def test_listeners_hear_of_every_sync_that_changed_something(workspace: Any) -> None:
    web = workspace.source("web", "a")
    heard: list[Any] = []
    async with workspace.open() as app:
        await app.sync()

        def fails(report: Any) -> None:
            raise RuntimeError("listener broke")

        app.catalog.on_change(fails)
        app.catalog.on_change(heard.append)
        await app.sync()
        assert heard == []
        web.offer("a", "b")
        await app.sync()
    assert [report.added for report in heard] == [["web.b"]]
    assert workspace.notes == ["a listener failed on the changes of web: RuntimeError('listener broke')"]


async def test_closing_in_the_middle_of_a_refresh_or_a_sync_leaves_nothing_running(workspace: Any) -> None:
    web, other = workspace.source("web", "a"), workspace.source("other", "x")
    async with workspace.open() as app:
        await app.sync("web")
        web.gate = other.gate = asyncio.Event()
        web.changed()
        find = asyncio.ensure_future(app.show("other.x"))
        while web.listed < 2 or other.listed < 1:
            await asyncio.sleep(0)
    with pytest.raises((asyncio.CancelledError, spindle.SpindleError)):
        await find
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


SYNC = """
import asyncio, sys
sys.path.insert(0, sys.argv[2])
import spindle
from spindle.settings import Settings
import scripted_source
from pathlib import Path
script = scripted_source.SCRIPTS["web"] = scripted_source.Script()
script.offer("a", "fresh")
async def main():
    table = {"kind": "scripted", "retry": {"attempts": 1}}
    async with spindle.open(settings=Settings(Path(sys.argv[1]), {"sources": {"web": table}})) as app:
        [report] = await app.sync()
        assert report.added == ["web.fresh"], report
asyncio.run(main())
"""


async def test_another_process_s_sync_is_seen_by_a_running_one(workspace: Any, plugin: Path) -> None:
    web = workspace.source("web", "a")
    async with workspace.open() as app:
        await app.sync()
        assert (await app.show("web.a")).name == "web.a"
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", SYNC, str(workspace.root), str(Path(__file__).parent),
            env={"PYTHONPATH": str(plugin)},
        )  # fmt: skip
        assert await process.wait() == 0
        assert (await app.show("web.fresh")).name == "web.fresh"
        assert await names(app) == ["web.a", "web.fresh"]
    assert web.listed == 1


async def test_a_source_that_another_process_does_not_have_stays_as_it_was(workspace: Any) -> None:
    web = workspace.source("web", "a")
    workspace.source("other", "x")
    async with workspace.open() as app:
        await app.sync()
        mine = dict(workspace.sources)
        del workspace.sources["web"]
        async with workspace.open() as other:
            assert await names(other) == ["other.x"]
            assert [found.name for found in await other.search("a")] == []
            with pytest.raises(NotFoundError):
                await other.show("web.a")
        workspace.sources = mine
        assert (await app.call("web.a")).text == "hello from a"
    assert web.listed == 1


async def test_a_source_may_be_added_in_python_once(workspace: Any) -> None:
    workspace.source("web", "a")
    async with workspace.open() as app:
        with pytest.raises(ConfigurationError, match="there is already a source 'web'"):
            app.catalog.sources.add("web", object(), object())  # type: ignore[arg-type]
        assert app.catalog.sources.origin("web") == "spindle.toml"
        assert app.catalog.sources.root == workspace.root
    assert isinstance(SCRIPTS["web"], Script)
