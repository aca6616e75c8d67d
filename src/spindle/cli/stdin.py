"""Reads what is piped into a command."""

from __future__ import annotations

import stat
import sys

# Programs that start us often leave an idle pipe as stdin, which must not block a call that needs
# nothing from it. `-` waits as long as it takes.
PATIENCE_WHEN_NEEDED = 5.0
PATIENCE_WHEN_OPTIONAL = 0.1


async def read_stdin(patience: float | None) -> str | None:
    """All of stdin, or None if nothing arrives in time. A terminal is read only with unlimited patience.
    Raises InvalidArgumentsError if it is no text."""
    from spindle.errors import InvalidArgumentsError

    data = await read_piped(patience)
    try:
        return data.decode("utf-8") if data is not None else None
    except UnicodeDecodeError as error:
        raise InvalidArgumentsError(f"stdin is not UTF-8 text: {error}") from None


async def read_piped(patience: float | None) -> bytes | None:
    """The same, as it comes."""
    import asyncio
    import os

    if sys.stdin is None or (patience is not None and sys.stdin.isatty()):  # pyright: ignore[reportUnnecessaryComparison] - it may be closed
        return None
    try:
        fd = sys.stdin.fileno()
    except OSError:
        return sys.stdin.read().encode() if patience is None else None  # no real file: a program embeds us
    data = bytearray()
    if stat.S_ISREG(os.fstat(fd).st_mode):
        data += sys.stdin.buffer.read()
    else:
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        try:
            loop.add_reader(fd, readable.set)
        except OSError:
            return None  # such as /dev/null, which has nothing to wait for
        try:
            while True:
                async with asyncio.timeout(patience):
                    await readable.wait()
                chunk = os.read(fd, 1 << 16)
                if not chunk:
                    break
                data += chunk
                patience = None
                readable.clear()
        except TimeoutError:
            return None
        finally:
            loop.remove_reader(fd)
    return bytes(data)


async def is_piped_into() -> bool:
    """True if data waits in a pipe at stdin. None of it is taken: it may be meant for somebody else."""
    import array
    import asyncio
    import fcntl
    import os
    import termios

    try:
        fd = sys.stdin.fileno()
        if not stat.S_ISFIFO(os.fstat(fd).st_mode):
            return False
        readable = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(fd, readable.set)
        try:
            async with asyncio.timeout(PATIENCE_WHEN_OPTIONAL):
                await readable.wait()  # for data, or for the end of it
        finally:
            loop.remove_reader(fd)
        waiting = array.array("i", [0])
        fcntl.ioctl(fd, termios.FIONREAD, waiting)
    except (AttributeError, OSError, TimeoutError, ValueError):
        return False  # it is closed, no real file, or idle
    return waiting[0] > 0
