"""`spindle.open`: opens a workspace, for async or blocking code."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from spindle import settings as settings_module
from spindle.app import Spindle, build, logger
from spindle.blocking import BlockingSpindle
from spindle.calls.caller import Clock
from spindle.calls.permissions import Permission, Visible, allow_all, show_all
from spindle.telemetry.exporting import switch_on

if TYPE_CHECKING:
    from spindle.auth.credentials import CredentialProvider
    from spindle.calls.tape import Tape
    from spindle.domain.question import OnQuestion
    from spindle.flows.flow import Flow
    from spindle.ports.source import Note
    from spindle.ports.store import RunStore, Store
    from spindle.ports.token_store import GrantStore, TokenStore
    from spindle.settings import Settings


class _Opened:
    """Holds the workspace once it is open. Apart, so that an `Opening` is not in a circle with itself, which
    only the collector would close."""

    app: Spindle | None = None


class Opening(BlockingSpindle):
    """A workspace to be opened: `async with` gives a `Spindle`, whose methods are awaited; `with` gives one
    whose methods block. Without either it is used in the same blocking way, as in a notebook: it is opened
    when it is first used, and closes itself."""

    def __init__(self, make: Callable[[], Awaitable[Spindle]]) -> None:
        opened = self._opened = _Opened()

        async def made() -> Spindle:
            opened.app = await make()
            return opened.app

        super().__init__(made)

    @property
    def missed(self) -> list[str]:
        """Says in words which calls an opened workspace has asked its tape for in vain."""
        app = self._opened.app
        tape = app.tape if app is not None else None
        return tape.missed if tape is not None else []

    async def __aenter__(self) -> Spindle:
        return await self._make()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opened.app is not None:
            await self._opened.app.close()


def open(
    path: Path | str | None = None,
    *,
    tools: Sequence[Callable[..., Any]] = (),
    flows: Sequence[Flow] = (),
    settings: Settings | None = None,
    store: Store | None = None,
    run_store: RunStore | None = None,
    credentials: CredentialProvider | None = None,
    token_store: TokenStore | GrantStore | None = None,
    permission: Permission | None = None,
    visible: Visible | None = None,
    on_question: OnQuestion | None = None,
    note: Note | None = None,
    environ: Mapping[str, str] | None = None,
    clock: Clock | None = None,
    record: Path | str | None = None,
    replay: Path | str | None = None,
    once: Path | str | None = None,
) -> Opening:
    """Opens the workspace at `path`, or the nearest one. Contacts no source.

    Use it with `async with` to await its methods, with `with` to block, or as it is:
    `s = spindle.open()`, then `s.call("fs.read_text_file", path="notes.txt")`, in a notebook.

    `tools` are Python functions to add under their plain names, and `flows` are flows built in Python that
    may be run. `credentials` gives each principal their own credential for a source, `token_store` keeps the
    tokens of users who gave consent, in place of the store, `permission` decides who may call which tool, and
    `visible` decides who may see it at all. `on_question` answers what MCP servers
    ask in the middle of a call; without it, or if it returns None, the call pauses. `run_store` keeps runs in
    another place than the store, and `note` receives messages about things that are odd but no error; by
    default they are logged as warnings of the logger `spindle`. `environ` replaces the environment.

    `record` names a file, a tape, that all calls are recorded on; `replay` a tape that answers them in place
    of the sources and models, with a state of its own; `once` records what is not there yet, else plays it.
    """
    switch_on(os.environ if environ is None else environ, note or logger.warning)

    async def opened(settings: Settings | None, tape: Tape | None) -> Spindle:
        return await build(
            path,
            tools=tools,
            flows=flows,
            settings=settings,
            store=store,
            run_store=run_store,
            credentials=credentials,
            token_store=token_store,
            permission=permission or allow_all,
            visible=visible or show_all,
            on_question=on_question,
            note=note or logger.warning,
            environ=environ,
            clock=clock or Clock(),
            tape=tape,
        )

    if record is None and replay is None and once is None:
        return Opening(lambda: opened(settings, None))
    from spindle.taped import chosen, playing, recording

    mode, tape = chosen(record, replay, once)
    if mode == "record":
        return Opening(lambda: recording(tape, lambda: opened(settings, None)))
    given = os.environ if environ is None else environ
    return Opening(
        lambda: playing(
            tape,
            settings or settings_module.load(path, environ),
            tools,
            given,
            note or logger.warning,
            opened,
        )
    )
