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
LIBRARIES = {"dbos": "dbos", "temporal": "temporalio"}
INSTALLS = {"dbos": INSTALL, "temporal": "pip install 'spindle-tools[temporal]'"}


def open_engine(
    config: EngineConfig,
    address: str,
    conninfo: tuple[str, str] | None,
    folder: Path,
    note: Note,
    *,
    root: Path,
) -> Engine:
    """Opens the engine of a workspace. `address` is that of its store, `conninfo` the connection string and
    the schema if that is in PostgreSQL, `folder` that of its state, `root` its own. Nothing is connected
    yet."""
    if config.kind == "local":
        return LocalEngine(is_chosen=True)
    kind = config.kind or "dbos"
    if find_spec(LIBRARIES[kind]) is None:
        if config.kind is None:
            return LocalEngine()
        raise ConfigurationError(f"the engine {kind} is not installed here", hint=INSTALLS[kind])
    if address == MEMORY:
        raise ConfigurationError(
            "an engine needs a store that workers can share, and this workspace stores nothing",
            hint='take `store = ":memory:"` out of the settings',
        )
    if config.temporal is not None:
        from spindle.engines.temporal import TemporalEngine

        return TemporalEngine(config.temporal, root, config.all_queues, note)
    from spindle.engines.dbos import DbosEngine
    from spindle.engines.dbos_place import EnginePlace

    found, schema = conninfo or (None, None)
    place = EnginePlace.of(found, f"{schema[:56]}_engine" if schema else None, folder / "engine.db")
    return DbosEngine(place, config.all_queues, note)
