"""A command line that `spindle up` executes: the same command, with the workspace that is open already and
the terminal of whoever sent it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import CancelledError
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from spindle.cli.context import CliContext
from spindle.cli.main import perform
from spindle.cli.output import Output
from spindle.errors import SpindleError
from spindle.plugins import source_class
from spindle.up.commands import NotOursError, WarmCommand
from spindle.up.places import named_workspace

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.calls.permissions import Visible
    from spindle.ports.source import Note
    from spindle.settings import Settings
    from spindle.up.workspace import WarmWorkspace

T = TypeVar("T")

_ALONE = ("once", "tape", "trusted")
"""Options with which a command uses something other than the open workspace, as its user trusts it."""


_COMMANDS = (
    "arguments", "auth.here", "call", "call_trace", "outcome", "piped", "results", "run", "search", "sources",
    "stdin", "tools",
)  # fmt: skip


def preload(settings: Settings) -> None:
    """Imports what commands will need, so that the first one does not hold up those beside it."""
    for name in _COMMANDS:
        import_module(f"spindle.cli.{name}")
    for table in settings.sources.values():
        if table["kind"] == "mcp":
            import_module("spindle.sources.mcp.session")
            import_module(f"spindle.sources.mcp.{'open_http' if 'url' in table else 'open_stdio'}")
        with contextlib.suppress(SpindleError):  # said by the command that wants it
            source_class(str(table["kind"]))


def execute_warm(command: WarmCommand, workspace: WarmWorkspace) -> int:
    """Executes one command line and returns its exit code. Raises NotOursError before anything was done, if
    its client has to do it."""
    return perform(command.argv, WarmContext(command, workspace))


class WarmContext(CliContext):
    """The open workspace of the server, and the output of the client."""

    def __init__(self, command: WarmCommand, workspace: WarmWorkspace) -> None:
        self._command = command
        self._workspace = workspace
        super().__init__(Output(command.stdout, command.stderr, command.environ))
        command.note = self.output.note

    def __setattr__(self, name: str, value: Any) -> None:
        # The options are read one by one, before the command begins.
        if name in _ALONE and value:
            raise NotOursError
        if name == "workspace" and value:
            meant = named_workspace(value, self._command.folder)
            if meant != self._workspace.root:
                raise NotOursError
        super().__setattr__(name, value)

    def passes_on(self, error: BaseException) -> bool:
        return isinstance(error, NotOursError)

    @property
    def stdin(self) -> TextIO:
        # By its name, because a server's question comes in the context of whoever opened the session.
        return self._command.stdin

    def load(self) -> Settings:
        return self._workspace.app.settings

    def open(
        self, note: Note | None = None, visible: Visible | None = None, *, for_others: bool = False
    ) -> AbstractAsyncContextManager[Spindle]:
        self._command.on_question = None if for_others else self.questions()
        for text in self._workspace.notes.of_opening:
            self.output.note(text)
        return contextlib.nullcontext(self._workspace.app)

    def run(self, work: Coroutine[Any, Any, T], *, fast_loop: bool = False) -> T:
        try:
            return self._command.run(work)
        except CancelledError:
            self.ended_by = self._command.ended_by
            raise

    @contextlib.contextmanager
    def interrupted_by(self, stop: Callable[[], None]) -> Generator[None]:
        self._command.on_interrupt = stop
        try:
            yield
        finally:
            self._command.on_interrupt = None
