"""Settings that are read again while a workspace is open."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import tomlkit

import spindle
from servers.running import PATIENCE, StdioServers, process_end
from spindle.catalog.diff import SyncReport
from spindle.domain.serve import ServeConfig
from spindle.errors import ConfigurationError, NotFoundError
from spindle.serving.access import ServingAccess
from spindle.serving.reload import EVERY, Live


def write(root: Path, **tables: Any) -> None:
    (root / "spindle.toml").write_text(tomlkit.dumps(tables))


class Heard:
    """Reports of the catalog, waited for by what they say."""

    def __init__(self) -> None:
        self.reports: asyncio.Queue[SyncReport] = asyncio.Queue()

    def __call__(self, report: SyncReport) -> None:
        self.reports.put_nowait(report)

    async def of(self, source: str) -> SyncReport:
        async with asyncio.timeout(PATIENCE):
            while True:
                report = await self.reports.get()
                if report.source == source:
                    return report


async def test_a_source_that_is_removed_is_closed_and_forgotten_and_one_that_is_new_is_asked(
    tmp_path: Path, stdio_server: StdioServers
) -> None:
    write(tmp_path, sources={"fault": stdio_server("fault"), "kept": stdio_server("kept")})
    async with spindle.open(tmp_path) as app:
        await app.call("fault.echo", text="x")
        await app.call("kept.echo", text="x")
        heard = Heard()
        app.catalog.on_change(heard)
        before = app.catalog.sources.config("kept")
        write(tmp_path, sources={"kept": stdio_server("kept"), "fresh": stdio_server("fresh")})
        await app.reload()
        assert "fault.echo" in (await heard.of("fault")).removed
        assert "fresh.echo" in (await heard.of("fresh")).added
        async with asyncio.timeout(PATIENCE):
            await process_end(stdio_server.starts("fault")[-1])
        with pytest.raises(NotFoundError):
            await app.call("fault.echo", text="x")
        assert not [tool for tool in await app.tools() if tool.source == "fault"]
        assert (await app.call("fresh.echo", text="x")).text
        # What did not change goes on as it was: the same process, the same limits and breaker.
        starts = stdio_server.starts("kept")
        await app.call("kept.echo", text="x")
        assert stdio_server.starts("kept") == starts
        assert app.catalog.sources.config("kept") is before


async def test_a_source_that_is_changed_is_started_anew_with_its_new_settings(
    tmp_path: Path, stdio_server: StdioServers
) -> None:
    write(tmp_path, sources={"fault": stdio_server("fault")})
    async with spindle.open(tmp_path) as app:
        await app.call("fault.echo", text="x")
        first = stdio_server.starts("fault")[-1]
        write(tmp_path, sources={"fault": {**stdio_server("fault"), "timeout": 7.0}})
        await app.reload()
        async with asyncio.timeout(PATIENCE):
            await process_end(first)
        await app.call("fault.echo", text="x")
        assert app.catalog.sources.config("fault").timeout == 7.0
        assert stdio_server.starts("fault")[-1] != first


async def test_a_changed_file_of_a_source_s_own_is_taken_over(tmp_path: Path) -> None:
    own = tmp_path / "say.toml"
    own.write_text('kind = "cli"\nprogram = "echo"\n[commands.one]\nargs = ["1"]\n')
    write(tmp_path, sources={"say": {"file": "say.toml"}})
    async with spindle.open(tmp_path) as app:
        assert (await app.call("say.one")).text == "1"
        own.write_text('kind = "cli"\nprogram = "echo"\n[commands.two]\nargs = ["2"]\n')
        await app.reload()
        assert (await app.call("say.two")).text == "2"
        with pytest.raises(NotFoundError):
            await app.call("say.one")


async def test_settings_with_a_mistake_change_nothing(tmp_path: Path, stdio_server: StdioServers) -> None:
    write(tmp_path, sources={"fault": stdio_server("fault")})
    async with spindle.open(tmp_path) as app:
        await app.call("fault.echo", text="x")
        settings = app.settings
        for wrong in ('[sources.x]\nkind = "nothing"\n', "not toml", "[sources.fault]\ncommand = 5\n"):
            (tmp_path / "spindle.toml").write_text(wrong)
            with pytest.raises(ConfigurationError):
                await app.reload()
            assert app.settings is settings
        starts = stdio_server.starts("fault")
        await app.call("fault.echo", text="x")
        assert stdio_server.starts("fault") == starts


async def test_functions_of_the_program_stay_when_the_settings_change(tmp_path: Path) -> None:
    def own() -> int:
        """Mine."""
        return 1

    write(tmp_path)
    async with spindle.open(tmp_path, tools=[own]) as app:
        assert (await app.call("own")).structured == 1
        write(tmp_path, serve={"port": 5})
        await app.reload()
        assert (await app.call("own")).structured == 1


async def test_listeners_hear_of_changed_access_and_a_look_is_rare(tmp_path: Path) -> None:
    write(tmp_path)
    now, notes = [100.0], list[str]()
    async with spindle.open(tmp_path) as app:
        heard = Heard()
        app.catalog.on_change(heard)
        access = ServingAccess.of(ServeConfig())
        live = Live(app, access, {}, notes.append, now=lambda: now[0])
        write(tmp_path, serve={"excluded_tools": ["x"], "host": "0.0.0.0"})
        await live.look()
        assert access.config.excluded_tools == ()
        now[0] += EVERY
        await live.look()
        assert access.config.excluded_tools == ("x",)
        assert access.config.host == "127.0.0.1"
        assert await heard.of("")
        assert notes == [
            "the settings changed, and are in force",
            "serve.host will be as changed after the next start",
            "serve.excluded_tools names 'x', which is not a tool",
        ]
        write(tmp_path, serve={"excluded_tools": 7})
        for _ in range(3):
            now[0] += EVERY
            await live.look()
        assert len(notes) == 4
        assert "the old ones stay in force" in notes[3]
        assert "serve.excluded_tools" in notes[3]
        assert access.config.excluded_tools == ("x",)


async def test_settings_made_in_python_cannot_be_read_again(open_sources: Any) -> None:
    async with open_sources({}) as app:
        with pytest.raises(ConfigurationError, match="made in Python"):
            await app.reload()
