"""Mods: classes that bring tools, from the workspace's folder and from installed packages."""

from __future__ import annotations

import asyncio
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

import spindle
from spindle import Finished, Paused
from spindle.app import Spindle
from spindle.domain.call import Result
from spindle.errors import ConfigurationError

COUNTER = """
import pathlib
from pydantic import BaseModel
from spindle import Context, tool

class Counter:
    '''Counts.'''

    class Config(BaseModel):
        model_config = {"extra": "forbid"}
        log: str
        step: int = 1

    def __init__(self, config: Config) -> None:
        self.config = config
        self.total = 0

    async def start(self) -> None:
        self.note("start")

    def stop(self) -> None:
        self.note("stop")

    def note(self, what: str) -> None:
        with pathlib.Path(self.config.log).open("a") as log:
            log.write(what + "\\n")

    def count(self, times: int = 1) -> int:
        '''Count on.

        Args:
            times: how often
        '''
        self.total += times * self.config.step
        return self.total

    @tool(name="who", read_only=True)
    async def who_asks(self, context: Context) -> str:
        return context.principal.id

    def get_tools(self):
        return [self.count, self.who_asks]
"""


class Workspace:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.notes: list[str] = []
        self.log = root / "log"
        (root / "mods").mkdir()

    def write(self, name: str, text: str) -> None:
        (self.root / "mods" / name).write_text(text)

    def settings(self, text: str) -> None:
        (self.root / "spindle.toml").write_text(text)

    def open(self) -> Any:
        return spindle.open(self.root, note=self.notes.append)

    def logged(self) -> list[str]:
        return self.log.read_text().split() if self.log.exists() else []


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("SPINDLE_HOME", str(tmp_path / "home"))
    root = tmp_path / "workspace"
    root.mkdir()
    made = Workspace(root)
    made.settings(f'[mods.counter]\nlog = "{made.log}"\nstep = 10\n')
    return made


async def names(app: Spindle) -> list[str]:
    return [summary.name for summary in await app.tools()]


async def test_a_mod_is_started_keeps_its_state_and_is_stopped(workspace: Workspace) -> None:
    workspace.write("counter.py", COUNTER)
    async with workspace.open() as app:
        assert await names(app) == ["count", "who"]
        tool = await app.show("count")
        assert tool.input_schema["properties"]["times"]["description"] == "how often"
        assert (await app.call("count", times=2)).structured == 20
        assert (await app.call("count")).structured == 30
        assert (await app.call("who")).text == "local"
        assert workspace.logged() == ["start"]
    assert workspace.logged() == ["start", "stop"]
    assert workspace.notes == []


async def test_an_edit_stops_the_old_mod_and_starts_the_new_one(workspace: Workspace) -> None:
    workspace.write("counter.py", COUNTER)
    async with workspace.open() as app:
        assert (await app.call("count")).structured == 10
        workspace.write("counter.py", COUNTER.replace("self.total = 0", "self.total = 500"))
        assert (await app.call("count")).structured == 510
    assert workspace.logged() == ["start", "stop", "start", "stop"]


async def test_a_mod_that_fails_is_reported_and_the_others_work(workspace: Workspace) -> None:
    workspace.write("counter.py", COUNTER)
    workspace.write("broken.py", "raise RuntimeError('no')")
    workspace.write(
        "half.py",
        "class HalfWay:\n"
        "    async def start(self): raise OSError('no network')\n"
        "    def get_tools(self): return []\n"
        "class NoTools:\n"
        "    def get_tools(self): raise ValueError('none today')\n"
        "class Plain:\n"
        "    '''No mod: it has no get_tools.'''\n",
    )
    async with workspace.open() as app:
        assert await names(app) == ["count", "who"]
    said = "\n".join(workspace.notes)
    assert "broken.py cannot be imported" in said
    assert "mods.half_way is left out: OSError: no network" in said
    assert "mods.no_tools is left out: ValueError: none today" in said
    assert "lain" not in said


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("", "mods.counter is left out: its settings are wrong: log: Field required"),
        ('[mods.counter]\nlog = "x"\nstpe = 2', "stpe: Extra inputs are not permitted"),
        ('[mods.countr]\nlog = "x"', "mods.countr: there is no such mod; did you mean 'counter'?"),
    ],
)
async def test_wrong_settings_are_named(workspace: Workspace, settings: str, said: str) -> None:
    workspace.settings(settings)
    workspace.write("counter.py", COUNTER)
    async with workspace.open() as app:
        assert await names(app) == []
    assert any(said in note for note in workspace.notes), workspace.notes


async def test_settings_that_are_no_table_stop_the_start(workspace: Workspace) -> None:
    workspace.settings("mods = 3")
    with pytest.raises(ConfigurationError, match="`mods` must be a table"):
        async with workspace.open():
            pass
    workspace.settings("[mods]\ncounter = 3")
    with pytest.raises(ConfigurationError, match=r"`mods.counter` must be a table such as \[mods.counter\]"):
        async with workspace.open():
            pass


async def test_a_mod_can_be_switched_off(workspace: Workspace) -> None:
    workspace.settings("[mods.counter]\nenabled = false")
    workspace.write("counter.py", COUNTER)
    async with workspace.open() as app:
        assert await names(app) == []
    assert (workspace.notes, workspace.logged()) == ([], [])


async def test_variables_in_settings_are_replaced(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTER_LOG", str(workspace.log))
    workspace.settings('[mods.counter]\nlog = "${COUNTER_LOG}"')
    workspace.write("counter.py", COUNTER)
    async with workspace.open() as app:
        await app.call("count")
    assert workspace.logged() == ["start", "stop"]


async def test_two_tools_of_one_name_are_a_conflict_that_names_both(workspace: Workspace) -> None:
    workspace.write("counter.py", COUNTER)
    workspace.write(
        "other.py", "def count(): return 1\nclass Other:\n    def get_tools(self): return [count]\n"
    )
    async with workspace.open() as app:
        (report,) = await app.sync()
    assert report.error is not None
    assert "two tools are called 'count'" in report.error["message"]
    assert "counter.py" in report.error["message"]
    assert "other.py" in report.error["message"]


async def test_a_mod_and_a_tool_file_of_one_name_are_a_conflict(workspace: Workspace) -> None:
    workspace.write("counter.py", COUNTER)
    (workspace.root / "tools").mkdir()
    (workspace.root / "tools" / "count.py").write_text(
        "from spindle import tool\n@tool\ndef count() -> int:\n    return 1\n"
    )
    async with workspace.open() as app:
        reports = await app.sync()
        problems = [report.error["message"] for report in reports if report.error]
    assert len(problems) == 1
    assert "two tools are called 'count'" in problems[0]
    assert "counter.py" in problems[0]
    assert "count.py" in problems[0]


async def test_tools_of_mods_ask_wait_for_approval_and_call_others(workspace: Workspace) -> None:
    workspace.settings("")
    workspace.write(
        "clerk.py",
        "from spindle import Context, tool\n"
        "class Clerk:\n"
        "    def __init__(self): self.orders = []\n"
        "    @tool\n"
        "    def book(self, item: str) -> int:\n"
        "        self.orders.append(item)\n"
        "        return len(self.orders)\n"
        "    @tool\n"
        "    async def order(self, context: Context) -> str:\n"
        "        number = (await context.call('book', item='tea')).structured\n"
        "        colour = context.ask('Which colour?')\n"
        "        allowed = context.approve('Order it?')\n"
        "        return f'{number} {colour} {allowed} {len(self.orders)}'\n"
        "    def get_tools(self): return [self.book, self.order]\n",
    )
    async with workspace.open() as app:
        asked = await app.run("order")
        assert isinstance(asked, Paused)
        assert asked.pauses[0].message == "Which colour?"
        approval = await app.resume(asked.pauses[0].token, "green")
        assert isinstance(approval, Paused)
        assert approval.pauses[0].message == "Order it?"
        done = await app.resume(approval.pauses[0].token, True)
        assert isinstance(done, Finished)
        # What was booked before the questions is not booked again.
        assert done.result.text == "1 green True 1"


async def test_settings_of_the_folder_itself_go_into_sources(workspace: Workspace) -> None:
    workspace.settings(f'[mods.counter]\nlog = "{workspace.log}"\n[sources.mods]\ntimeout = 7\n')
    workspace.write("counter.py", COUNTER)
    async with workspace.open() as app:
        assert await names(app) == ["count", "who"]
        assert app.catalog.sources.get("mods").config.timeout == 7


class Installed:
    """As a package would bring it."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings

    async def greet(self) -> Result:
        await asyncio.sleep(0)
        return Result(structured=self.settings, has_structured=True)

    def get_tools(self) -> list[Any]:
        return [self.greet]


async def test_an_installed_mod_is_used_when_it_has_settings(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def installed(*, group: str) -> list[EntryPoint]:
        assert group == "spindle.mods"
        return [
            EntryPoint("greeter", f"{__name__}:Installed", group),
            EntryPoint("gone", "no_such_module:Mod", group),
        ]

    monkeypatch.setattr("importlib.metadata.entry_points", installed)
    workspace.settings("[mods.greeter]\nname = 'Ann'\n[mods.gone]\n")
    async with workspace.open() as app:
        assert (await app.call("greet")).structured == {"name": "Ann"}
    assert any("mods.gone: no_such_module:Mod cannot be loaded" in note for note in workspace.notes)
