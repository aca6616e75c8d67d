"""The sources: how they are, what they changed, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from spindle.console.differences import HeldChange, held_change
from spindle.console.glances import HOUR, NEWEST, CallsGlance, glance
from spindle.console.screen import Look, Screen
from spindle.console.source_lines import SourceLine, source_lines
from spindle.domain.identity import LOCAL
from spindle.errors import NotFoundError
from spindle.presets import presets
from spindle.settings.provenance import written_settings

if TYPE_CHECKING:
    from spindle.domain.finding import ToolFinding
    from spindle.ports.store import SourceState
    from spindle.presets import Preset

SHOWN_CHANGES: Final = 20


@dataclass(frozen=True, slots=True)
class SourcePage:
    """The list."""

    sources: Sequence[SourceLine]
    may_add: bool


async def sources(look: Look) -> SourcePage:
    """Returns the sources that this principal sees, those with problems first."""
    return SourcePage(await source_lines(look), _may_add(look))


def _may_add(look: Look) -> bool:
    return look.principal.id == LOCAL.id and look.principal.admin


@dataclass(frozen=True, slots=True)
class SourceView:
    """One source."""

    line: SourceLine
    state: SourceState
    reached: str
    """Its address, or the beginning of its command."""
    sessions: int
    calls: CallsGlance
    held: Sequence[HeldChange]
    held_more: int
    findings: Sequence[ToolFinding]
    """Texts of its tools in use that should not be believed."""
    logs: Sequence[str]
    wants_consent: bool
    lacks_consent: bool
    hint: str
    """The way out of its error."""


async def source(look: Look) -> SourceView:
    """Returns a source by its name. One of which a principal sees nothing is not there."""
    name = look.named["name"]
    line = next((line for line in await source_lines(look) if line.name == name), None)
    if line is None:
        raise NotFoundError(f"there is no source {name!r}")
    app, admin = look.app, look.principal.admin
    catalog = app.catalog
    state = (await catalog.states())[name]
    stored = await app.store.stored_tools(name) if admin and state.held_count else []
    held = [item for item in stored if item.held is not None]
    waiting = {item.name for item in held}
    timings = await app.store.call_timings(
        limit=NEWEST, since=look.now - HOUR, principal=look.whose, source=name
    )
    sessions = catalog.connections.sessions(name)
    wants = name in catalog.consents.asked_for()
    return SourceView(
        line,
        state,
        _reached(catalog.sources.table(name)) if admin else "",
        len(sessions),
        glance(timings, look.now),
        [
            held_change(
                item.name,
                item.current,
                item.held,
                [one.sentence for one in state.findings if one.name == item.name],
            )
            for item in held[:SHOWN_CHANGES]
            if item.held
        ],
        max(len(held) - SHOWN_CHANGES, 0),
        [one for one in state.findings if one.name not in waiting][:SHOWN_CHANGES] if admin else [],
        [session.log() for session in sessions if session.log is not None and session.log()] if admin else [],
        wants,
        wants and await catalog.consents.lacks(name, look.principal),
        _hint(look, line) if admin and line.error else "",
    )


def _hint(look: Look, line: SourceLine) -> str:
    """The way out of its error: the error's own, if this process has met it."""
    if line.state == "lost":
        return "Its session broke off. The next call opens another one, and so does Read again."
    if hint := look.app.catalog.reasons.get(line.name, {}).get("hint"):
        return str(hint)
    written = (
        item for item in written_settings(look.app.settings) if item.path[:2] == ("sources", line.name)
    )
    place = next((f" in {item.file.name}:{item.line}" for item in written if item.file is not None), "")
    return f"Check that it runs, and that its settings{place} are right; then read it again."


def _reached(table: Mapping[str, Any]) -> str:
    """The words that say which server it is, without those that might be secrets."""
    if isinstance(table.get("url"), str):
        return str(table["url"]).partition("?")[0]
    command = table.get("command")
    words = [str(word) for word in command] if isinstance(command, list) else []  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return " ".join(words[:3]) + (" …" if len(words) > 3 else "") or str(table.get("document", ""))


@dataclass(frozen=True, slots=True)
class AddPage:
    """The ways to add a source."""

    presets: Sequence[Preset]
    may_add: bool


async def add(look: Look) -> AddPage:
    """Returns the servers that are known by name."""
    return AddPage(sorted(presets().values(), key=lambda preset: preset.name), _may_add(look))


SCREENS: Final = (
    Screen("/sources", "sources.html", sources, "sources"),
    Screen("/sources/add", "add.html", add, "sources", admin=True),
    Screen("/sources/{name}", "source.html", source, "sources"),
)
