"""A workspace as it is played from a tape: its flows are its own, every other source comes from the tape."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.calls.taping import LIVE
from spindle.settings import Settings
from spindle.sources.taped import TapedRelaySource, TapedSource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spindle.calls.tape import Tape
    from spindle.catalog.sources import SourceSet
    from spindle.ports.source import Note
    from spindle.settings.tables import RawTable

_OF_SERVERS = frozenset({"auth", "env", "idempotency_key", "rate_limit"})
"""Settings of every source that mean nothing without its server."""
_RELAYING = frozenset({"mcp"})
"""The kinds that have resources and prompts. One of another kind has those that are on the tape."""


@dataclass(frozen=True)
class ReplayedSettings(Settings):
    """The settings of a workspace without its servers, and with a state of its own."""

    live: Settings = field(default_factory=lambda: Settings(Path(), {}))
    """The settings as they are written."""

    @cached_property
    def sources(self) -> dict[str, RawTable]:
        return {name: table for name, table in self.live.sources.items() if table["kind"] in LIVE}

    def reread(self, environ: Mapping[str, str] | None = None) -> Settings:
        return replayed(self.live.reread(environ), self.state_folder)


def replayed(settings: Settings, state: Path) -> ReplayedSettings:
    """Returns the settings for playing a tape. Nothing is read from the workspace's own state or written to
    it: what happens stays in memory and in the folder `state`."""
    same: dict[str, Any] = {item.name: getattr(settings, item.name) for item in fields(Settings)}
    same |= {"raw": {**settings.raw, "store": ":memory:"}, "state": state}
    return ReplayedSettings(**same, live=settings)


def add_taped(sources: SourceSet, settings: Settings, tape: Tape, note: Note) -> set[str]:
    """Adds the sources of a tape to those of a workspace, each with the settings that it has there, and
    returns their names."""
    from spindle.domain.source import SourceConfig
    from spindle.sources.taped.config import TapedConfig

    live = settings.live if isinstance(settings, ReplayedSettings) else settings
    kept = SourceConfig.model_fields.keys() - _OF_SERVERS
    relaying = {take.source[0] for take in tape.takes if take.source is not None}
    for name, kind in tape.sources.items():
        # Functions that a program gave have no settings, nor has a tape that is played without its workspace:
        # its tools are called as they were.
        names = [tool.name for tool in tape.tools.values() if tool.source == name]
        written = live.sources.get(name, {"prefix": all(one.startswith(f"{name}.") for one in names)})
        common = {key: value for key, value in written.items() if key in kept}
        config = TapedConfig.model_validate({**common, "kind": "taped", "was": kind})
        cls = TapedRelaySource if kind in _RELAYING or name in relaying else TapedSource
        sources.add(name, cls(name, config, live.root, note, tape), config)
    return set(tape.sources)
