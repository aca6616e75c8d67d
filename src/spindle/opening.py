"""`spindle.open`: opens a workspace, for async or blocking code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from spindle.app import Spindle, build, logger
from spindle.blocking import BlockingSpindle
from spindle.calls.caller import Clock
from spindle.calls.permissions import Permission, Visible, allow_all, show_all

if TYPE_CHECKING:
    from spindle.auth.credentials import CredentialProvider
    from spindle.domain.question import OnQuestion
    from spindle.flows.flow import Flow
    from spindle.ports.source import Note
    from spindle.ports.store import RunStore, Store
    from spindle.settings import Settings


class Opening:
    """A workspace to be opened: enter it with `async with`, or with `with` for blocking calls."""

    def __init__(self, make: Callable[[], Awaitable[Spindle]]) -> None:
        self._make = make
        self._app: Spindle | None = None
        self._blocking: BlockingSpindle | None = None

    async def __aenter__(self) -> Spindle:
        self._app = await self._make()
        return self._app

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._app is not None:
            await self._app.close()

    def __enter__(self) -> BlockingSpindle:
        self._blocking = BlockingSpindle.start(self._make)
        return self._blocking

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._blocking is not None:
            self._blocking.close()


def open(
    path: Path | str | None = None,
    *,
    tools: Sequence[Callable[..., Any]] = (),
    flows: Sequence[Flow] = (),
    settings: Settings | None = None,
    store: Store | None = None,
    run_store: RunStore | None = None,
    credentials: CredentialProvider | None = None,
    permission: Permission = allow_all,
    visible: Visible = show_all,
    on_question: OnQuestion | None = None,
    note: Note = logger.warning,
    environ: Mapping[str, str] | None = None,
    clock: Clock = Clock(),  # noqa: B008 - frozen
) -> Opening:
    """Opens the workspace at `path`, or the nearest one. Contacts no source.

    `tools` are Python functions to add under their plain names, and `flows` are flows built in Python that
    may be run. `credentials` gives each principal their own credential for a source, `permission` decides who
    may call which tool, and `visible` decides who may see it at all. `on_question` answers what MCP servers
    ask in the middle of a call; without it, or if it returns None, the call pauses. `run_store` keeps runs in
    another place than the store, and `note` receives messages about things that are odd but no error.
    """
    return Opening(
        lambda: build(
            path,
            tools=tools,
            flows=flows,
            settings=settings,
            store=store,
            run_store=run_store,
            credentials=credentials,
            permission=permission,
            visible=visible,
            on_question=on_question,
            note=note,
            environ=environ,
            clock=clock,
        )
    )
