"""The workspace and the output that commands work with."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from spindle.cli.loading import load
from spindle.cli.options import shared_options
from spindle.cli.output import Output

if TYPE_CHECKING:
    from pathlib import Path

    from spindle.app import Spindle
    from spindle.calls.permissions import Visible
    from spindle.domain.call import Progress
    from spindle.domain.question import OnQuestion
    from spindle.ports.source import Note
    from spindle.settings import Settings

T = TypeVar("T")


class CliContext:
    """The workspace that was asked for, and the output."""

    def __init__(self, output: Output) -> None:
        self.output = output
        self.workspace: str | None = None
        self.once: Callable[..., AbstractAsyncContextManager[Spindle]] | None = None
        """Opens the source that `--from` names, which is used once and without a workspace."""
        self.tape: dict[str, Path] = {}
        """The tape that calls go on or come from, by its mode."""
        self.debug = bool(output.environ.get("SPINDLE_DEBUG"))
        """True if failures are shown with their whole traceback."""
        self.ended_by: signal.Signals | None = None
        """The signal, other than Ctrl-C, that made us stop."""
        self.run_id: str | None = None
        """The run that a cancelled command can go on with."""
        self.answers_later = False
        """True once the person at the terminal has put off a question."""
        self.trusted = False
        """True if the workspace is trusted for this one command (`--trust`)."""
        self.worker: list[int] | None = None
        """The descriptors that `spindle serve --workers` gave this process, if it is one of its workers."""
        self._refused = False

    def load(self) -> Settings:
        """The settings in force, with or without a workspace. About one that nobody trusts the person at
        the terminal is asked, once."""
        from spindle import settings

        found = settings.load(self.workspace, trusted=self.trusted)
        if found.verdict.trusted or self._refused or not self.can_ask:
            return found
        from spindle.cli.trust_view import ask_to_trust

        self._refused = not ask_to_trust(self.output, found)
        return found if self._refused else settings.load(self.workspace, trusted=False)

    def untrusted(self) -> Settings | None:
        """The settings of a workspace that nobody trusts, whose stored names may still be listed; None for
        one that may be opened. Says on stderr what is left out."""
        if self.once is not None:
            return None
        found = self.load()
        if found.verdict.trusted:
            return None
        from shlex import quote

        from spindle.trust import shown

        root = shown(str(found.root))
        self.output.note(
            f"{root} is not trusted ({shown(found.verdict.reason)}): nothing of it was run, and only stored "
            f"names are listed; `spindle trust {quote(root)}` shows what it would run"
        )
        return found

    def settings(self) -> Settings:
        """The settings in force. Raises ConfigurationError if there is neither a workspace nor any user
        settings, and UntrustedError for a workspace that nobody trusts."""
        from spindle import settings
        from spindle.errors import ConfigurationError

        found = self.load()
        file = found.root / settings.FILE_NAME
        if not found.sources and not file.is_file():
            where = f"in {found.root}" if self.workspace else f"at or above {found.root}"
            raise ConfigurationError(
                f"there is no workspace: no {settings.FILE_NAME} {where}",
                hint="create one with `spindle new`, or name one with `-w PATH`",
            )
        found.require_trust()
        return found

    def open(
        self, note: Note | None = None, visible: Visible | None = None, *, for_others: bool = False
    ) -> AbstractAsyncContextManager[Spindle]:
        """Opens the workspace, or the source that `--from` names. What servers ask in calls `for_others` is
        not put to the person at our terminal."""
        load("spindle.opening")
        from spindle import opening
        from spindle.calls.permissions import show_all

        on_question = None if for_others else self.questions()
        visible = visible or show_all
        if self.once is not None:
            if self.tape:
                from spindle.errors import ConfigurationError

                raise ConfigurationError(
                    "a tape is of a workspace, and --from uses none", hint="add the source"
                )
            return self.once(visible=visible, on_question=on_question)
        return opening.open(
            # A tape needs no workspace.
            settings=self.load() if "replay" in self.tape else self.settings(),
            note=note or self.output.note,
            visible=visible,
            on_question=on_question,
            record=self.tape.get("record"),
            replay=self.tape.get("replay"),
            once=self.tape.get("once"),
        )

    def passes_on(self, error: BaseException) -> bool:
        """True if an error is not to be shown, because somebody else does the command."""
        return False

    def questions(self) -> OnQuestion | None:
        """Puts a server's questions to the person at the terminal, if there is one."""
        if not self.can_ask:
            return None
        from spindle.cli.forms import TerminalQuestions

        return TerminalQuestions(self)

    def progress_of(self, what: str) -> Progress:
        """A callback that shows the progress of a call."""

        async def show(progress: float, total: float | None, message: str | None) -> None:
            share = f"{progress / total:.0%}" if total else f"{progress:g}"
            self.output.status(f"{what}: {share} {message or ''}")

        return show

    @property
    def stdin(self) -> TextIO | None:
        """The standard input; None if it is closed."""
        return sys.stdin

    @property
    def can_ask(self) -> bool:
        """True if there is a person at the terminal who can be asked."""
        stdin = self.stdin
        return bool(stdin and stdin.isatty() and self.output.shows_progress and not self.output.as_json)

    async def ask_hidden(self, prompt: str) -> str | None:
        """The same for a secret, which the terminal does not show."""
        import termios

        assert self.stdin is not None
        fd = self.stdin.fileno()
        before = termios.tcgetattr(fd)
        silent = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
        termios.tcsetattr(fd, termios.TCSADRAIN, silent)
        try:
            return await self.ask(prompt)
        finally:
            termios.tcsetattr(fd, termios.TCSADRAIN, before)
            self.output.aside("")

    async def ask(self, prompt: str) -> str | None:
        """Asks for one line; None if the user cancels."""
        import asyncio

        self.output.prompt(prompt)
        self.output.has_prompt = True
        loop, readable = asyncio.get_running_loop(), asyncio.Event()
        assert self.stdin is not None  # who asks has seen that somebody is there
        fd = self.stdin.fileno()
        # Not `input` in a thread: Ctrl-C cannot end a thread that waits for the terminal.
        loop.add_reader(fd, readable.set)
        try:
            await readable.wait()
            line = os.read(fd, 1 << 16)
        finally:
            loop.remove_reader(fd)
            self.output.has_prompt = False
        if not line:
            self.output.aside("")
            return None
        return line.decode("utf-8", "replace").strip()

    def run(self, work: Coroutine[Any, Any, T], *, fast_loop: bool = False) -> T:
        """Runs a command's work, while output of tools goes to stderr. `fast_loop` uses an event loop that
        takes longer to load but less for every request."""
        import asyncio

        self.output.take_stdout()
        _make_logs_visible()
        from spindle.cli.responsive import responsive_loop

        with asyncio.Runner(loop_factory=responsive_loop() if fast_loop else None) as runner:
            return runner.run(self._until_signalled(work))

    @contextlib.contextmanager
    def interrupted_by(self, stop: Callable[[], None]) -> Generator[None]:
        """Calls `stop` for Ctrl-C, meanwhile, in the place of cancelling the work."""
        import asyncio

        loop = asyncio.get_running_loop()
        try:
            loop.add_signal_handler(signal.SIGINT, stop)
        except (ValueError, RuntimeError):  # not in the main thread
            yield
            return
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    async def _until_signalled(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs the work; a signal to end, or a lost terminal, closes the sessions as Ctrl-C does."""
        import asyncio

        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None

        def stop(number: signal.Signals) -> None:
            self.ended_by = number
            task.cancel()

        try:
            for number in (signal.SIGTERM, signal.SIGHUP):
                loop.add_signal_handler(number, stop, number)
        except (ValueError, RuntimeError):
            pass  # not in the main thread, so signals are handled elsewhere
        return await work


Work = Callable[..., "int | Coroutine[Any, Any, int | None] | None"]


def command(
    name: str, *, cls: type[click.Command] = click.Command, **settings: Any
) -> Callable[[Work], click.Command]:
    """A command whose function gets the `CliContext` first and may return an exit code. An async function
    is run as `CliContext.run` does."""

    def make(function: Work) -> click.Command:
        @functools.wraps(function)
        def work(cli: CliContext, *words: Any, **options: Any) -> int | None:
            from spindle.cli.pydantic_plugins import look_first

            look_first()
            done = function(cli, *words, **options)
            return cli.run(done) if isinstance(done, Coroutine) else done

        made = click.command(name, cls=cls, **settings)(click.pass_obj(work))
        own = {name for option in made.params for name in option.opts}
        made.params.extend(option for option in shared_options() if not own & set(option.opts))
        return made

    return make


def _make_logs_visible() -> None:
    """Has what is logged, which may quote a server, reach stderr without signs that a terminal obeys."""
    import logging

    from spindle.domain.visible import quoted, visible

    class Visible(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return visible(quoted(super().format(record)))

    if logging.lastResort is not None:
        logging.lastResort.setFormatter(Visible())
