"""Starting a program, and its pipes as an event loop's own transports.

Not the loop's `subprocess_exec`: uvloop copies the page tables of the whole process for each program that it
starts, and waits for it, 5 to 17 ms in which nobody is answered; `Popen` borrows them for half a millisecond.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any, Final, cast

PIPE_SIZE: Final = 64 * 1024
"""Bytes that a pipe holds, and that are read from it at once."""


async def start_program(
    protocol: asyncio.SubprocessProtocol,
    vector: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    has_input: bool = True,
) -> None:
    """Starts a program as the leader of a group of its own, and has the protocol told what becomes of it.
    Raises OSError or ValueError if it cannot be started."""
    process = _popen(vector, env, cwd, subprocess.PIPE if has_input else subprocess.DEVNULL)
    program = _StartedProgram(process, protocol)
    protocol.connection_made(program)
    connecting = asyncio.ensure_future(program.connect())
    try:
        await asyncio.shield(connecting)
    except BaseException:
        # A pipe whose connecting is cancelled is never heard of again in uvloop. It takes a few turns.
        await asyncio.wait([connecting])
        program.close()
        raise


def _popen(vector: Sequence[str], env: Mapping[str, str], cwd: Path, stdin: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        list(vector),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        env=dict(env),
        cwd=cwd,
        start_new_session=True,
    )


class _StartedProgram(asyncio.SubprocessTransport):
    """A program that was started, for a protocol of asyncio's."""

    def __init__(self, process: subprocess.Popen[bytes], protocol: asyncio.SubprocessProtocol) -> None:
        super().__init__()
        self.protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._process = process
        self._pipes: dict[int, asyncio.BaseTransport] = {}
        self._open = {fd for fd, pipe in enumerate(self._files()) if pipe is not None}
        self._closed = False
        self._told_end = False
        self._watch()

    def _files(self) -> tuple[IO[bytes] | None, IO[bytes] | None, IO[bytes] | None]:
        return self._process.stdin, self._process.stdout, self._process.stderr

    async def connect(self) -> None:
        stdin, stdout, stderr = self._files()
        if stdin is not None:
            await self._loop.connect_write_pipe(lambda: _Pipe(self, 0), stdin)
        for fd, pipe in ((1, stdout), (2, stderr)):
            await self._loop.connect_read_pipe(lambda fd=fd: _Pipe(self, fd), pipe)

    # --- what a protocol asks

    def get_pid(self) -> int:
        return self._process.pid

    def get_returncode(self) -> int | None:
        return self._process.returncode

    def get_pipe_transport(self, fd: int) -> asyncio.BaseTransport | None:
        return self._pipes.get(fd)

    def is_closing(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Lets go of its pipes, and kills it if it still runs."""
        if self._closed:
            return
        self._closed = True
        for fd, pipe in enumerate(self._files()):
            if fd in self._pipes:
                self._pipes[fd].close()
            elif pipe is not None:
                pipe.close()
                self._open.discard(fd)
        if self._process.returncode is None:
            self._process.kill()
        self._tell_end()

    # --- its pipes and its end

    def pipe_made(self, fd: int, transport: asyncio.BaseTransport) -> None:
        self._pipes[fd] = transport
        if fd and hasattr(transport, "max_size"):
            # asyncio makes room for four times what a pipe holds, with each read.
            cast(Any, transport).max_size = PIPE_SIZE

    def pipe_lost(self, fd: int, exc: Exception | None) -> None:
        self._open.discard(fd)
        self.protocol.pipe_connection_lost(fd, exc)
        self._tell_end()

    def _watch(self) -> None:
        try:
            descriptor = os.pidfd_open(self._process.pid)
        except (AttributeError, OSError):  # not Linux, or an old one, or one that forbids it
            threading.Thread(target=self._wait_in_thread, name="end of a program", daemon=True).start()
            return

        def ended() -> None:
            self._loop.remove_reader(descriptor)
            os.close(descriptor)
            self._exited()

        self._loop.add_reader(descriptor, ended)

    def _wait_in_thread(self) -> None:
        self._process.wait()
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._exited)

    def _exited(self) -> None:
        self._process.wait()
        self.protocol.process_exited()
        self._tell_end()

    def _tell_end(self) -> None:
        if self._process.returncode is not None and not self._open and not self._told_end:
            self._told_end = True
            self.protocol.connection_lost(None)


class _Pipe(asyncio.Protocol):
    """One end of a pipe to a program."""

    def __init__(self, program: _StartedProgram, fd: int) -> None:
        self._program = program
        self._fd = fd
        # What comes most often takes no further step.
        self.data_received = partial(program.protocol.pipe_data_received, fd)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._program.pipe_made(self._fd, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._program.pipe_lost(self._fd, exc)

    def pause_writing(self) -> None:
        self._program.protocol.pause_writing()

    def resume_writing(self) -> None:
        self._program.protocol.resume_writing()
