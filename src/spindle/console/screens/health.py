"""Settings and health: what is wrong, what is in force and where it comes from, and what runs here."""

from __future__ import annotations

import os
import platform
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from spindle.console.access_rules import access_rules
from spindle.console.examination import Examined, Finding
from spindle.console.paging import Page, page_of
from spindle.console.screen import Look, Screen
from spindle.console.settings_lines import SettingLine, setting_lines
from spindle.errors import ConfigurationError, NotFoundError
from spindle.serving.exposure import doubts
from spindle.serving.held_back import held_back
from spindle.stores.open import shown
from spindle.threads import in_thread
from spindle.version import __version__

if TYPE_CHECKING:
    from spindle.domain.engine import QueueConfig

RUNS: Final = 500
"""Runs that are counted, at most."""
SETTINGS: Final = 100
KINDS: Final = {
    "calls": "records of calls",
    "runs": "runs that have ended",
    "events": "events",
    "audit": "the audit log",
    "cache": "cached results",
    "files": "files",
}


@dataclass(frozen=True, slots=True)
class KeepLine:
    """The limits of one kind of record: what is over any of them goes."""

    what: str
    age: float | None
    count: int | None
    size: int | None


@dataclass(frozen=True, slots=True)
class QueueLine:
    """One queue, and the runs in it."""

    name: str
    config: QueueConfig
    waiting: int
    running: int


@dataclass(frozen=True, slots=True)
class HealthPage:
    """The whole page."""

    findings: Sequence[Finding]
    """Those that are known without a closer look."""
    examined: Examined | None
    may_examine: bool
    version: str
    python: str
    system: str
    process: int
    root: str
    store: str
    store_size: int
    files: int
    files_size: int
    keeps: Sequence[KeepLine]
    prunes: str
    """The time when what is over the limits goes, in words."""
    engine: str
    queues: Sequence[QueueLine]
    processes: int
    """The processes that serve this workspace now."""
    executing: Sequence[str]
    """The processes that have a run in hand."""

    @property
    def problems(self) -> int:
        """The number of problems that are known."""
        return sum(finding.level == "problem" for finding in self.findings)


async def health(look: Look) -> HealthPage:
    """Looks at what is known, without trying any source."""
    app = look.app
    settings = app.settings
    findings = [finding async for finding in _known(look)]
    retention, engine = settings.retention(), settings.engine()
    kept = await in_thread(app.files.list_kept, "counting files")
    running = await app.store.runs(limit=RUNS, status="running")
    queued = await app.store.runs(limit=RUNS, status="queued")
    signs = await app.store.secrets("process")
    examination = look.examination
    return HealthPage(
        findings,
        examination.last if examination is not None else None,
        examination is not None,
        __version__,
        f"{platform.python_implementation()} {platform.python_version()}",
        f"{platform.system()} {platform.machine()}",
        os.getpid(),
        str(settings.root),
        shown(settings.store_address(os.environ)),
        await app.store.size(),
        len(kept),
        sum(file.size for file in kept),
        list(_keeps(retention)),
        f"a server looks every {retention.every:g} s" if retention.background else "only when asked to",
        engine.kind or "chosen when a run is submitted",
        [
            QueueLine(
                name,
                config,
                sum(run.queue == name for run in queued),
                sum(run.queue == name for run in running),
            )
            for name, config in engine.all_queues.items()
        ],
        sum((sign.expires_at or 0) > look.now for sign in signs),
        sorted({run.owner for run in running if run.owner}),
    )


def _keeps(retention: Any) -> Iterator[KeepLine]:
    for name, what in KINDS.items():
        keep = getattr(retention, name)
        yield KeepLine(what, getattr(keep, "age", None), keep.count, keep.size)


async def _known(look: Look) -> AsyncIterator[Finding]:
    """Yields the problems that this process knows of."""
    app = look.app
    catalog = app.catalog
    states = await catalog.states()
    for name, state in states.items():
        if state.error:
            hint = catalog.reasons.get(name, {}).get("hint")
            yield Finding("problem", name, state.error, str(hint) if hint else None, _page(name))
        elif state.held_count:
            some = f"{state.held_count} changed definition{'s' if state.held_count != 1 else ''}"
            yield Finding(
                "problem",
                name,
                f"{some} held back until accepted",
                "look at them, then accept them",
                _page(name),
            )
    for name in catalog.sources.names:
        for item in catalog.sources.missing_variables(name):
            yield Finding("problem", name, item.message, item.hint, _page(name))
    try:
        rules = await access_rules(look)
    except ConfigurationError as error:
        yield Finding("problem", "serve", error.message, error.hint)
    else:
        tools = [name for names in (await catalog.names_by_source()).values() for name in names]
        for sentence in doubts(rules.config, tools, catalog.unsynced()):
            yield Finding("note", "serve", sentence)
    for process, why in held_back(app.settings.state_folder):
        said = f"the server with process id {process} keeps its older settings: {why}"
        yield Finding("note", "serve", said, "restart it, or correct the settings")


def _page(source: str) -> str:
    return f"/sources/{quote(source, safe='')}"


async def examine(look: Look) -> Examined:
    """Tries every source and looks at everything else, and returns what was found."""
    if look.examination is None:
        raise NotFoundError("nothing can be examined here")
    return await look.examination.run()


@dataclass(frozen=True, slots=True)
class SettingsPage:
    """The settings in force."""

    page: Page[SettingLine]
    total: int
    files: Sequence[str]
    """The files that they were read from."""
    with_defaults: bool


async def settings(look: Look) -> SettingsPage:
    """Returns the settings that fit the address: `q`, in the name, and `defaults`."""
    in_force = look.app.settings
    defaults = bool(look.query.get("defaults"))
    lines = await in_thread(lambda: setting_lines(in_force, defaults=defaults), "reading settings")
    words = look.query.get("q", "").strip().lower()
    found = [line for line in lines if words in line.path.lower()]
    files = [str(file) for file in in_force.files if file.exists()]
    return SettingsPage(page_of(found, look.query, SETTINGS), len(lines), files, defaults)


SCREENS: Final = (
    Screen("/health", "health.html", health, "health", admin=True),
    Screen("/health/examined", "examined.html", examine, "health", admin=True),
    Screen("/health/settings", "settings.html", settings, "health", admin=True),
)
