"""Listening on a Unix socket: a file, whose permissions say who may connect."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from collections.abc import Generator
from pathlib import Path

from spindle.errors import ConfigurationError
from spindle.listening.limits import BACKLOG

LONGEST = 107
"""Bytes of a path that the system takes."""


@contextlib.contextmanager
def listen_unix(path: Path, mode: int) -> Generator[socket.socket]:
    """Listens at a path, and removes the file in the end. One that a dead process left is replaced."""
    if len(os.fsencode(path)) > LONGEST:
        raise ConfigurationError(f"{path} is too long for a socket: {LONGEST} bytes at most")
    _remove_stale(path)
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o777 & ~mode)
    try:
        opened.bind(str(path))
        opened.listen(BACKLOG)
    except OSError as error:
        opened.close()
        raise ConfigurationError(
            f"cannot listen at {path}: {error.strerror or error}", hint="see serve.unix and --unix"
        ) from None
    finally:
        os.umask(before)
    made = os.stat(path)
    try:
        yield opened
    finally:
        opened.close()
        with contextlib.suppress(OSError):
            if os.stat(path).st_ino == made.st_ino:
                os.unlink(path)


def _remove_stale(path: Path) -> None:
    try:
        is_socket = stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:
        return
    if not is_socket:
        raise ConfigurationError(f"{path} is there and is no socket", hint="choose another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        try:
            link.connect(str(path))
        except OSError as error:
            if error.errno == errno.ECONNREFUSED:
                os.unlink(path)
            return
    raise ConfigurationError(f"another program listens at {path}", hint="stop it, or choose another path")
