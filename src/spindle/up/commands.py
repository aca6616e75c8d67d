"""One command that `spindle up` does for a client: its words, its environment and its standard streams, which
are the client's own descriptors."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Collection, Coroutine, Generator, Iterator, Mapping, Sequence
from contextvars import ContextVar
from io import BufferedReader, BufferedWriter, FileIO, TextIOWrapper
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

if TYPE_CHECKING:
    from spindle.calls.questions import LocalAnswers
    from spindle.domain.question import OnQuestion
    from spindle.ports.source import Note
    from spindle.up.messages import Message

T = TypeVar("T")

current: ContextVar[WarmCommand | None] = ContextVar("spindle_warm_command", default=None)
"""The command that the work at hand is done for."""


class NotOursError(Exception):
    """The client has to do the command itself. Raised before anything was done."""


class WarmCommand:
    """A command of a client, from its request to its end."""

    def __init__(self, asked: Message) -> None:
        """Raises ValueError if the request is not one."""
        self.is_running = False
        self.ended_by: signal.Signals | None = None
        """The signal that made it stop."""
        self.on_interrupt: Callable[[], None] | None = None
        """Called for Ctrl-C in the place of cancelling the work."""
        self.note: Note | None = None
        """Shows a note to its caller."""
        self.on_question: OnQuestion | None = None
        """Puts a server's question to the person at its terminal, if there is one."""
        self.answers: LocalAnswers | None = None
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[Any] | None = None
        self._cancelled = False
        self._opened: list[Any] = []
        try:
            self.argv = _texts(asked.get("argv"))
            self.root, self.folder = _texts([asked.get("root"), asked.get("folder")])
            self.environ = _environ(asked.get("environ"))
            self._encodings = _texts(asked.get("encodings"))
            self.umask = int(asked.get("umask", -1))
            if not 0 <= self.umask <= 0o777:
                raise ValueError("the umask is missing")
        except (ValueError, TypeError, OverflowError) as error:
            raise ValueError(f"not a request: {error}") from None

    def begin(self, descriptors: Sequence[int]) -> None:
        """Takes over the client's streams. Raises ValueError if they are not three, or cannot be used."""
        left = list(descriptors)
        try:
            if len(left) != 3:
                raise ValueError(f"{len(left)} of them")
            # A stream owns its descriptor: what is written late cannot reach who gets the number next.
            for mode, encoding in zip("rww", self._encodings, strict=True):
                raw = FileIO(left[0], mode)
                del left[0]
                self._opened.append(raw)
                self._opened[-1] = _text_over(raw, encoding)
            self.stdin, self.stdout, self.stderr = self._opened
        except (ValueError, LookupError, OSError) as error:
            for descriptor in left:
                os.close(descriptor)
            raise ValueError(f"not the streams of a client: {error}") from None
        self.is_running = True

    @property
    def name(self) -> str:
        """The word that is safe to log: arguments may hold secrets."""
        return next((word for word in self.argv if word.isalpha()), "?")

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Does async work on the server's loop, and waits for it in the command's own thread."""

        async def tracked() -> T:
            self._task = asyncio.current_task()
            try:
                if self._cancelled and self._task is not None:
                    self._task.cancel()
                return await work
            finally:
                self._task = None

        return asyncio.run_coroutine_threadsafe(tracked(), self._loop).result()

    def signalled(self, number: int) -> None:
        """Does what a signal of the client does to a process: ends the work, after Ctrl-C maybe with care."""
        if number == signal.SIGINT and self.on_interrupt is not None:
            self.on_interrupt()
            return
        if number != signal.SIGINT:
            self.ended_by = signal.Signals(number)
        self._cancelled = True
        if self._task is not None:
            self._task.cancel()

    def close(self) -> None:
        """Closes our side of its streams, so that whoever reads them sees the end."""
        self.is_running = False
        while self._opened:
            with contextlib.suppress(OSError):  # the reader has gone
                self._opened.pop().close()


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):  # pyright: ignore[reportUnknownVariableType]
        raise ValueError("a list of texts is missing")
    return value  # pyright: ignore[reportUnknownVariableType] - checked


def _environ(value: Any) -> Mapping[str, str]:
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        raise ValueError("the environment is missing")
    return value  # pyright: ignore[reportUnknownVariableType] - checked


def _text_over(raw: FileIO, encoding: str) -> TextIO:
    if raw.readable():
        return TextIOWrapper(BufferedReader(raw), encoding)
    return TextIOWrapper(BufferedWriter(raw), encoding, "backslashreplace", line_buffering=raw.isatty())


class OwnOutput:
    """The descriptors 1 and 2 of the process, inherited by programs that a workspace's Python code starts.
    They are the stderr of the command that runs, and the log while none or several do."""

    def __init__(self) -> None:
        self.log = open(os.dup(2), "w", buffering=1, encoding="utf-8", errors="backslashreplace")  # noqa: SIM115

    def follow(self, commands: Collection[WarmCommand]) -> None:
        """Points them to where they belong while these commands run."""
        only = next(iter(commands)) if len(commands) == 1 else None
        descriptor = only.stderr.fileno() if only is not None else self.log.fileno()
        for number in (1, 2):
            os.dup2(descriptor, number)


class CommandStream:
    """A standard stream of the process that is the current command's while it runs, and otherwise the
    process's own: what a workspace's Python code prints or reads is its caller's."""

    def __init__(self, name: str, own: TextIO) -> None:
        self._name = name
        self._own = own

    @property
    def _stream(self) -> TextIO:
        command = current.get()
        return getattr(command, self._name) if command is not None and command.is_running else self._own

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Writes at once: nobody flushes what a tool prints."""
        stream = self._stream
        count = stream.write(text)
        stream.flush()
        return count

    def __iter__(self) -> Iterator[str]:
        return iter(self._stream)


@contextlib.contextmanager
def streams_of_commands(log: TextIO) -> Generator[None]:
    """Makes the standard streams of the process those of the command at hand; `log` is for all others."""
    before = sys.stdin, sys.stdout, sys.stderr
    with open(os.devnull, encoding="utf-8") as nothing:
        replaced: Any = [CommandStream("stdin", nothing), *(CommandStream("stderr", log) for _ in range(2))]
        sys.stdin, sys.stdout, sys.stderr = replaced
        try:
            yield
        finally:
            sys.stdin, sys.stdout, sys.stderr = before
