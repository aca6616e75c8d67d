"""Opens the engine that the settings name."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from spindle.engines.local import INSTALL, LocalEngine
from spindle.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

    from spindle.domain.engine import EngineConfig
    from spindle.ports.engine import Engine
    from spindle.ports.source import Note

MEMORY = ":memory:"


def open_engine(
    config: EngineConfig, address: str, conninfo: tuple[str, str] | None, folder: Path, note: Note
) -> Engine:
    """Opens the engine of a workspace. `address` is that of its store, `conninfo` the connection string and
    the schema if that is in PostgreSQL, `folder` that of its state. Nothing is connected yet."""
    if config.kind == "local":
        return LocalEngine(is_chosen=True)
    if find_spec("dbos") is None:
        if config.kind is None:
            return LocalEngine()
        raise ConfigurationError("the engine dbos is not installed here", hint=INSTALL)
    if address == MEMORY:
        raise ConfigurationError(
            "an engine needs a store that workers can share, and this workspace stores nothing",
            hint='take `store = ":memory:"` out of the settings',
        )
    from spindle.engines.dbos import DbosEngine
    from spindle.engines.dbos_place import EnginePlace

    found, schema = conninfo or (None, None)
    place = EnginePlace.of(found, f"{schema[:56]}_engine" if schema else None, folder / "engine.db")
    return DbosEngine(place, config.all_queues, note)
