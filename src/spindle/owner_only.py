"""Folders and files that nobody but their owner can read, whatever the umask says."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import IO, Final

FOLDER: Final = 0o700
FILE: Final = 0o600
_OTHERS: Final = 0o077


def make_folder(path: Path) -> None:
    """Creates a folder for its owner alone, with all that is missing above it. One that exists stays as it
    is."""
    try:
        path.mkdir(mode=FOLDER)
    except FileNotFoundError:
        make_folder(path.parent)
        path.mkdir(mode=FOLDER, exist_ok=True)
    except OSError:
        if not path.is_dir():
            raise


def open_file(path: Path) -> IO[bytes]:
    """Opens a file to be written anew. One that is made is its owner's alone."""
    return open(path, "wb", opener=lambda name, flags: os.open(name, flags, FILE))


def make_file(path: Path) -> None:
    """Creates an empty file for its owner alone, unless there is one."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE))


def is_open_to_others(path: Path) -> bool:
    """True if others than the owner may do anything with a file or folder that is there."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return not stat.S_ISLNK(found.st_mode) and bool(found.st_mode & _OTHERS)


def tighten(path: Path) -> bool:
    """Takes others' rights to a file or folder away. True: they had some, and it was ours to change."""
    if not is_open_to_others(path):
        return False
    try:
        path.chmod(path.stat().st_mode & ~_OTHERS & 0o7777)
    except OSError:
        return False
    return True


def open_to_others(folder: Path) -> list[Path]:
    """Returns the folder and what lies in it, as far as others have rights to it."""
    try:
        return [path for path in (folder, *folder.iterdir()) if is_open_to_others(path)]
    except OSError:
        return []


def tighten_folder(folder: Path) -> list[Path]:
    """Takes others' rights to a folder and to what lies in it away, and returns what was open to them. Deeper
    than that nobody gets by then."""
    return [path for path in open_to_others(folder) if tighten(path)]
