"""A workspace whose calls go on a tape, or come from one."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from spindle.agents.taped_models import PlayedModels, RecordedModels
from spindle.calls.tape import Tape
from spindle.calls.tape_writer import TapeWriter
from spindle.calls.taping import Taping
from spindle.domain.identity import NO_CREDENTIAL
from spindle.errors import ConfigurationError
from spindle.sources.taped.replay import replayed
from spindle.stores.peek import stored_tools

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.domain.tool import Tool, ToolSpec
    from spindle.ports.source import Note
    from spindle.settings import Settings

Given = Path | str | None


def chosen(record: Given, replay: Given, once: Given) -> tuple[Literal["record", "replay"], Path]:
    """Returns the one that is meant of a tape to record, to play, or to record once and then play."""
    given = [Path(item) for item in (record, replay, once) if item is not None]
    if len(given) != 1:
        raise ConfigurationError("a tape is either recorded, played or recorded once", hint="name one")
    [tape] = given
    if tape.is_dir():
        raise ConfigurationError(f"the tape {tape} is a folder", hint="name a file in it")
    if tape.exists() and not tape.is_file():
        raise ConfigurationError(f"the tape {tape} is no file", hint="name a file that may be replaced")
    is_recorded = record is not None or (once is not None and not tape.exists())
    return ("record" if is_recorded else "replay"), tape.absolute()


class PlayedTape:
    """A tape that answers the calls of an open workspace."""

    def __init__(self, tape: Tape, state: Path) -> None:
        self.missed = tape.missed
        """Says in words which calls were asked for in vain."""
        self._state = state

    async def close(self) -> None:
        """Removes the state that was kept meanwhile."""
        shutil.rmtree(self._state, ignore_errors=True)


async def recording(path: Path, opened: Callable[[], Awaitable[Spindle]]) -> Spindle:
    """Returns a workspace that records its calls. The tape is there once the workspace was closed."""
    writer = TapeWriter(path)
    try:
        app = await opened()
    except BaseException:
        writer.give_up()
        raise
    app.tape = app.caller.taping = Taping(writer, app.catalog, app.recorder)
    app.caller.uses_cache = False  # what another call had is not on the tape
    app.agents.taped = RecordedModels(writer)
    return app


async def playing(
    path: Path,
    settings: Settings,
    functions: Sequence[Callable[..., Any]],
    environ: Mapping[str, str],
    note: Note,
    opened: Callable[[Settings, Tape], Awaitable[Spindle]],
) -> Spindle:
    """Returns a workspace whose calls are answered by a tape. Says which of their tools have changed, as far
    as that is known without any server: since the last sync, or in the functions of this program."""
    tape = Tape.read(path)
    for name, tool in _known_now(tape, settings, environ, note).items():
        _tell(tape.compare(name, tool.fingerprint, tool.spec.whole_definition()), note)
    for spec in await _specs(functions, settings, note):
        _tell(tape.compare(spec.remote_name, spec.fingerprint, spec.whole_definition()), note)
    state = Path(tempfile.mkdtemp(prefix="spindle-replay-"))
    try:
        app = await opened(replayed(settings, state), tape)
    except BaseException:
        shutil.rmtree(state, ignore_errors=True)
        raise
    app.tape = PlayedTape(tape, state)
    app.caller.uses_cache = False
    app.agents.taped = PlayedModels(tape)
    await app.sync(*tape.sources)
    return app


def _known_now(tape: Tape, settings: Settings, environ: Mapping[str, str], note: Note) -> dict[str, Tool]:
    settings.require_trust()
    address = settings.store_address(environ)
    if address == ":memory:" or "://" in address:
        return {}  # playing a tape takes no server, nor that of a store
    try:
        return stored_tools(Path(address), tape.tools)
    except sqlite3.Error as error:
        note(f"whether the tools of {tape.path.name} have changed is not known: {error}")
        return {}


async def _specs(functions: Sequence[Callable[..., Any]], settings: Settings, note: Note) -> list[ToolSpec]:
    if not functions:
        return []
    from spindle.sources.python import PythonSource

    source, _ = PythonSource.of_functions("python", functions, settings.root, note)
    return await source.open(NO_CREDENTIAL, lambda: None).discover()


def _tell(change: str | None, note: Note) -> None:
    if change is not None:
        note(change)
