"""The workspace that `spindle up` keeps open, and how it follows its settings."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Generator
from typing import TYPE_CHECKING

from spindle import opening
from spindle.calls.questions import LocalAnswers
from spindle.errors import SpindleError
from spindle.serving.waiting import continued_meanwhile
from spindle.threads import in_thread
from spindle.up.commands import NotOursError, WarmCommand, current

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.domain.call import Host
    from spindle.domain.peer import Peer
    from spindle.domain.source import SourceConfig
    from spindle.ports.source import Note
    from spindle.settings import Settings

_AT_START = ("store", "auth", "at_rest", "up")
"""Tables of the settings that an open workspace does not follow."""


class ChangedTooMuchError(Exception):
    """The workspace changed in a way that needs a new process."""


class WarmWorkspace:
    """An open workspace that is shared by commands one after another, and at the same time."""

    def __init__(self, app: Spindle, notes: CommandNotes) -> None:
        self.app = app
        self.notes = notes
        self._mark = app.settings.mark
        self._following = asyncio.Lock()
        self._store = _file_of_store(app.settings)

    @property
    def root(self) -> str:
        """The real path of its folder."""
        return os.path.realpath(self.app.settings.root)

    async def follow(self) -> None:
        """Takes over settings that changed. Raises NotOursError if they are wrong or nobody trusts them: then
        the client says so. Raises ChangedTooMuchError if a new process is needed."""
        async with self._following:
            if _file_of_store(self.app.settings) != self._store:
                raise ChangedTooMuchError("the state was replaced")
            mark = self.app.settings.current_mark()
            if mark == self._mark:
                return
            with self.notes.opening():
                try:
                    await self.app.reload(self._require_same_basis)
                except SpindleError as error:
                    raise NotOursError from error
            self._mark = mark

    async def require_trust(self) -> None:
        """Raises UntrustedError if somebody else may have changed the workspace since it was opened, or its
        user no longer trusts it. Asked before every command, as if it were the first."""
        await in_thread(self.app.settings.require_trust_still, "trust")

    def _require_same_basis(self, settings: Settings) -> None:
        before = self.app.settings
        if any(before.raw.get(name) != settings.raw.get(name) for name in _AT_START):
            raise ChangedTooMuchError("the settings changed too much")


def _file_of_store(settings: Settings) -> tuple[int, int] | None:
    """Tells the file with the state from one that was put in its place; None where it is no file."""
    try:
        found = os.stat(settings.store)
    except OSError:
        return None
    return found.st_dev, found.st_ino


class CommandNotes:
    """Receives the notes of the workspace: those of a command's own work go to its caller, others to the log.
    What was noted when the workspace was opened is kept, because every command would say it."""

    def __init__(self, log: Note) -> None:
        self._log = log
        self.of_opening: list[str] = []
        self._is_opening = False

    @contextlib.contextmanager
    def opening(self) -> Generator[None]:
        """Keeps what is noted meanwhile for every command to come."""
        self.of_opening = []
        self._is_opening = True
        try:
            yield
        finally:
            self._is_opening = False

    def __call__(self, text: str) -> None:
        command = current.get()
        if command is not None and command.is_running and command.note is not None:
            command.note(text)
        elif self._is_opening:
            self.of_opening.append(text)
        else:
            self._log(text)


class CommandAnswers(LocalAnswers):
    """Whoever answers a source's questions: the person at the terminal of the command that made the call."""

    def peer(
        self,
        source: str,
        name: str,
        config: SourceConfig,
        host: Host,
        client: Peer | None,
        *,
        can_pause: bool = True,
    ) -> Peer | None:
        """Returns the one who answers during a call or a request, like `LocalAnswers`, of which every command
        has its own."""
        command: WarmCommand | None = current.get()
        answers: LocalAnswers = self
        if command is not None and command.is_running:
            answers = command.answers = command.answers or LocalAnswers(command.on_question, self.model)
        return LocalAnswers.peer(answers, source, name, config, host, client, can_pause=can_pause)


@contextlib.asynccontextmanager
async def opened(settings: Settings, log: Note) -> AsyncGenerator[WarmWorkspace]:
    """Opens the workspace for commands to come. It closes with all its sessions at the end."""
    notes = CommandNotes(log)
    async with contextlib.AsyncExitStack() as stack:
        with notes.opening():
            app = await stack.enter_async_context(opening.open(settings=settings, note=notes))
        assert app.agents.sampling is not None
        app.answer_by(CommandAnswers(None, app.agents.sampling.of_workspace))
        await stack.enter_async_context(continued_meanwhile(app, notes))
        yield WarmWorkspace(app, notes)
