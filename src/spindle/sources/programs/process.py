"""One run of a program: started without a shell, its output limited, ended with all processes that it
started.

A program that ends by itself may leave a daemon behind, if that has left the process group; a cancelled
program may not.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from spindle.domain.call import Result
from spindle.errors import ConnectionFailedError, InvalidArgumentsError, ResultTooLargeError
from spindle.sources.programs import descendants
from spindle.sources.programs.groups import end_group, signal_group, started
from spindle.sources.programs.starting import start_program

TERM_GRACE = 2.0
"""Seconds that a program may take to end when it is asked to."""
OUTPUT_GRACE = 1.0
"""Seconds to wait for output that somebody outside the program's group holds open after its end."""
STDERR_KEPT = 16 * 1024
SHOWN_LINES, SHOWN_LENGTH = 20, 500
"""The last lines of its output that an error shows, and the characters of each."""


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """The exit code and the output of a program that has ended."""

    exit_code: int
    """The exit status; below zero, the number of the signal that ended the program."""
    stdout: bytes
    stderr: bytes
    """The last part of it."""

    @property
    def epitaph(self) -> str:
        if self.exit_code >= 0:
            return f"exited with status {self.exit_code}"
        try:
            name = signal.Signals(-self.exit_code).name
        except ValueError:
            name = f"signal {-self.exit_code}"
        return f"was ended by {name}"

    @property
    def said(self) -> str:
        """The end of what it wrote to stderr, shortened so that it can be shown."""
        return _last_lines(self.stderr)

    def failure(self, what: str, **more: Any) -> Result:
        """The result of a program that ran and reported a failure, which is an error of the tool itself."""
        said, shown = self.said, _last_lines(self.stdout)
        ended = {**more, "exit_code": self.exit_code, "stderr": said, "stdout": shown}
        text = f"{what} {self.epitaph}" + (f":\n{said or shown}" if said or shown else "")
        return Result.of_value(ended, text, is_error=True)


def _last_lines(data: bytes) -> str:
    lines = [line.rstrip() for line in data.decode("utf-8", "replace").split("\n")]
    return "\n".join([line[-SHOWN_LENGTH:] for line in lines if line][-SHOWN_LINES:])


async def run(
    name: str,
    vector: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    stdin: bytes | None,
    limit: int,
) -> ProcessResult:
    """Runs a program to its end. In any case its process group is ended too; on cancellation, everything
    that it started."""
    env, mark = descendants.marked(env)
    program = _Program(limit, mark)
    try:
        await _start(name, program, vector, env, cwd, has_input=stdin is not None)
        if stdin is not None:
            program.feed(stdin)
        await program.ended.wait()
        if program.too_large:
            await program.stop()
            raise ResultTooLargeError(
                f"{name!r}: the output of {vector[0]!r} is larger than {limit} bytes",
                hint=f"ask for less, or raise sources.{name}.max_result_size",
            )
        return program.finished()
    except asyncio.CancelledError:
        await program.stop()
        raise
    finally:
        program.end()


async def _start(
    name: str, program: _Program, vector: Sequence[str], env: Mapping[str, str], cwd: Path, *, has_input: bool
) -> None:
    try:
        await start_program(program, vector, env=env, cwd=cwd, has_input=has_input)
    except FileNotFoundError:
        is_folder = cwd.is_dir()
        missing = vector[0] if is_folder else str(cwd)
        raise ConnectionFailedError(
            f"cannot start {name!r}: {missing!r} was not found",
            hint="install the program, or give its whole path in `program`"
            if is_folder
            else "create that folder, or correct `cwd`",
            sent=False,
        ) from None
    except OSError as error:
        if error.errno == errno.E2BIG:
            raise InvalidArgumentsError(
                f"{name!r}: the arguments are longer than a command line may be",
                hint="pass large values through `stdin`",
                sent=False,
            ) from None
        raise ConnectionFailedError(f"cannot start {name!r}: {error}", sent=False) from None


class _Program(asyncio.SubprocessProtocol):
    def __init__(self, limit: int, mark: str) -> None:
        self._limit = limit
        self._mark = mark
        self._leader: descendants.Process | None = None
        self._given_up: set[descendants.Process] | None = None
        """The processes it had started when it was given up, until they have ended."""
        self._stdout = bytearray()
        self._stderr = bytearray()
        self._transport: asyncio.SubprocessTransport | None = None
        self._waiting: asyncio.TimerHandle | None = None
        self._exited = asyncio.Event()
        self.ended = asyncio.Event()
        """It has exited and its output was read, or there is too much of that."""
        self.too_large = False

    def feed(self, data: bytes) -> None:
        assert self._transport is not None
        pipe = cast(asyncio.WriteTransport, self._transport.get_pipe_transport(0))
        pipe.write(data)
        pipe.close()

    def finished(self) -> ProcessResult:
        assert self._transport is not None
        code = self._transport.get_returncode()
        assert code is not None
        return ProcessResult(code, bytes(self._stdout), bytes(self._stderr[-STDERR_KEPT:]))

    async def stop(self) -> None:
        """Asks the program to end, gives it some time, and then kills it."""
        if self._transport is None or self._exited.is_set():
            return
        leader = self._transport.get_pid()
        self._given_up = set()
        # Before it ends, because its children then lose their parent.
        self._given_up = await asyncio.to_thread(descendants.descendants, self._leader, self._mark)
        signal_group(leader, signal.SIGTERM)
        if not await self._wait():
            self._end_group()
            await self._wait()
        await asyncio.to_thread(self._end_descendants)

    async def _wait(self) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TERM_GRACE):
                await self._exited.wait()
        return self._exited.is_set()

    def end(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
        if self._transport is not None:
            self._end_group()
            self._end_descendants()
            self._transport.close()

    def _end_descendants(self) -> None:
        if self._given_up is not None:
            descendants.end(self._given_up, self._leader, self._mark)
            self._given_up = None

    def _end_group(self) -> None:
        assert self._transport is not None
        end_group(self._transport.get_pid())

    # --- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)
        self._leader = descendants.identify(self._transport.get_pid())
        started(self._transport.get_pid())

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self._stderr += data
            if len(self._stderr) > 4 * STDERR_KEPT:
                del self._stderr[:-STDERR_KEPT]
        elif not self.too_large:
            self._stdout += data
            if len(self._stdout) > self._limit:
                self.too_large = True
                self._stdout.clear()
                self.ended.set()

    def process_exited(self) -> None:
        self._exited.set()
        # Its background processes belong to the call too, and hold the output open.
        self._end_group()
        self._waiting = asyncio.get_running_loop().call_later(OUTPUT_GRACE, self.ended.set)

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()
