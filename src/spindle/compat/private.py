"""Workspaces that exist only in memory, for objects that bring their own configuration."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from spindle.adapters.event_loop import Home
from spindle.auth.keys import VARIABLE, new_key
from spindle.opening import Opening
from spindle.opening import open as open_workspace
from spindle.settings import Settings

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.auth.credentials import CredentialProvider
    from spindle.domain.call import Result
    from spindle.ports.source import Note

T = TypeVar("T")


def opened(
    root: Path,
    sources: Mapping[str, dict[str, Any]],
    *,
    tools: Sequence[Callable[..., Any]] = (),
    credentials: CredentialProvider | None = None,
    note: Note | None = None,
    origin: str = "this program",
) -> Opening:
    """Opens these sources, and no settings of a user or a folder. Nothing outlives the process: the store is
    in memory, and the key that seals its secrets is made for it. `origin` says where the sources come from
    in messages about mistakes."""
    environ = {VARIABLE: new_key(), **os.environ}
    # Their own interface takes what a user came back with, and is not told who that is.
    raw = {"sources": dict(sources), "store": ":memory:", "auth": {"consent": "anyone"}}
    origins = dict.fromkeys(sources, origin)
    settings = Settings(root, raw, origins, is_workspace=False, environ=environ)
    noted: dict[str, Any] = {} if note is None else {"note": note}
    return open_workspace(settings=settings, tools=tools, credentials=credentials, environ=environ, **noted)


def output_of(result: Result) -> Any:
    """Returns the output of a call: structured data, text, or all blocks where there are others than text."""
    if result.has_structured:
        return result.structured
    if all(block.type == "text" for block in result.content):
        return result.text
    return result.to_dict()


class Background:
    """A workspace on an event loop of its own, for objects whose methods are partly blocking. It ends when
    `close` is called, or when nobody holds it any more."""

    def __init__(self, opening: Opening) -> None:
        blocking = opening.__enter__()
        self._app, self._home = blocking.wait(_at_home)
        self._blocking = blocking
        # In a thread, because garbage may be collected on the very loop that would have to be waited for.
        closing = threading.Thread(target=blocking.close, name="end of spindle", daemon=True)
        self._end = weakref.finalize(self, closing.start)
        self._end.atexit = False

    def wait(self, work: Callable[[Spindle], Coroutine[Any, Any, T]]) -> T:
        """Does async work with the workspace, and blocks until it is done."""
        return self._blocking.wait(work)

    async def run(self, work: Callable[[Spindle], Coroutine[Any, Any, T]]) -> T:
        """Does async work with the workspace, from any event loop. To cancel it is to cancel the work."""
        return await self._home.run(work(self._app))

    def close(self) -> None:
        """Ends the workspace."""
        if self._end.detach() is not None:
            self._blocking.close()


async def _at_home(app: Spindle) -> tuple[Spindle, Home]:
    return app, Home()
