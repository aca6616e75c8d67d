"""The files of a workspace that can run or steer what runs, each with the hash of its content."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

MAX_FILES = 5000
MAX_BYTES = 64_000_000
MAX_FOLDERS = 5000
LARGE = 8_000_000
"""Bytes of a file that is told by its times and its place on the disk, because reading it takes too long."""

PYTHON = (".py", ".pyc", ".pyd", ".so", ".dylib", ".dll")
CODE = (
    *PYTHON,
    ".js",
    ".mjs",
    ".cjs",
    ".ts",
    ".sh",
    ".bash",
    ".zsh",
    ".fish",
    ".rb",
    ".pl",
    ".php",
    ".lua",
    ".jar",
)
DOCUMENTS = (".toml", ".json", ".yaml", ".yml", ".flow", ".env")

# What a program is given is data for it, unless it is code.
_FOR_PROGRAMS = ("command", "args", "arguments")
_NOT_OURS = ("node_modules", "site-packages", "__pycache__")


@dataclass(frozen=True)
class Coverage:
    """Holds, by the place of each file that can run in a workspace, the hash of its content."""

    root: Path
    files: Mapping[str, str]
    too_much: str = ""
    """Why the files cannot all be looked at."""
    real: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """By place, the file itself, behind links."""

    @cached_property
    def digest(self) -> str:
        """One hash of all of it."""
        lines = (f"{place}\0{mark}\n" for place, mark in sorted(self.files.items()))
        return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()

    def changed_from(self, before: Mapping[str, str]) -> list[str]:
        """The places whose content is not as it was, or that are new or gone."""
        both = before.keys() | self.files.keys()
        return sorted(place for place in both if before.get(place) != self.files.get(place))


def cover(
    root: Path, settings_files: Iterable[Path], folders: Iterable[str], table: Mapping[str, Any]
) -> Coverage:
    """Looks at the settings, at the workspace's own folders, and at the files that the settings name."""
    files = _Files(root)
    try:
        for file in settings_files:
            files.add(file)
        for folder in folders:
            files.add_below(root / folder, (*CODE, *DOCUMENTS))
        files.add_named(table)
    except _TooMuchError as error:
        return Coverage(root, files.hashes, str(error), files.real)
    return Coverage(root, files.hashes, "", files.real)


class _TooMuchError(Exception):
    """There is more than can be looked at on every command."""


class _Files:
    """Collects files and their hashes, within bounds."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.hashes: dict[str, str] = {}
        self.real: dict[str, Path] = {}
        self._bytes = 0
        self._folders: set[tuple[int, int]] = set()

    def add(self, file: Path) -> None:
        """Adds a file, if it is there. A link counts with its target and with what is behind it."""
        path = os.path.normpath(file)
        place = os.path.relpath(path, self._root) if Path(path).is_relative_to(self._root) else path
        if place in self.hashes:
            return
        if len(self.hashes) >= MAX_FILES:
            raise _TooMuchError(f"more than {MAX_FILES} files in it can run")
        try:
            link = f"{os.readlink(path)}\0" if os.path.islink(path) else ""
            content = self._hash(path)
        except FileNotFoundError:
            return
        except OSError as error:
            link, content = "", f"unreadable: {error.errno}"
        self.hashes[place] = link + content
        self.real[place] = Path(os.path.realpath(path))

    def _hash(self, path: str) -> str:
        # Looked at first: to open a device can do something, and a pipe may have no writer.
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode):
            return "not a file"
        if found.st_size > LARGE:
            return f"large {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns} {found.st_ino}"
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as handle:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return "not a file"
            self._bytes += status.st_size
            if self._bytes > MAX_BYTES:
                raise _TooMuchError(
                    f"the files in it that can run have more than {MAX_BYTES // 1_000_000} MB"
                )
            return hashlib.file_digest(handle, "sha256").hexdigest()

    def add_below(self, folder: Path, endings: Sequence[str], *, skipping: Sequence[str] = ()) -> None:
        """Adds the files below a folder that have one of the endings or may be executed."""
        for base, names in self._walk(folder, skipping):
            for name in names:
                path = os.path.join(base, name)
                if name.lower().endswith(tuple(endings)):
                    # Python reads a cached .pyc only beside its source, and our loader never does.
                    if not (name.endswith(".pyc") and os.path.basename(base) == "__pycache__"):
                        self.add(Path(path))
                elif _is_program(path):
                    self.add(Path(path))

    def _walk(self, folder: Path, skipping: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
        """The folders and their files, through links too, but each folder once."""
        for base, folders, names in os.walk(folder, followlinks=True):
            status = os.stat(base)
            if (status.st_dev, status.st_ino) in self._folders:
                folders.clear()
                continue
            self._folders.add((status.st_dev, status.st_ino))
            if len(self._folders) > MAX_FOLDERS:
                raise _TooMuchError(f"it has more than {MAX_FOLDERS} folders that can hold code")
            folders[:] = sorted(name for name in folders if not _is_skipped(base, name, skipping))
            yield base, sorted(names)

    def add_named(self, table: Mapping[str, Any]) -> None:
        """Adds what the settings name: files, folders of a `path`, and the code around a `module`."""
        for keys, text in texts(table):
            key = next((key for key in reversed(keys) if not key.isdigit()), "")
            if key == "module" and "sources" in keys[:1]:
                # Modules of the root import each other plainly, so all of them can run.
                self.add_below(self._root, PYTHON, skipping=_NOT_OURS)
                continue
            is_given = bool(set(_FOR_PROGRAMS) & set(keys))
            for word in {text, *text.split()} if is_given else {text}:
                self._add_word(word.strip("'\""), key, is_given=is_given)

    def _add_word(self, word: str, key: str, *, is_given: bool) -> None:
        if not word or len(word) > 1000 or "\0" in word or "://" in word.removeprefix("file://"):
            return
        path = self._root / os.path.expanduser(word.removeprefix("file://"))
        try:
            status = path.stat()
        except (OSError, ValueError):
            return
        if stat.S_ISDIR(status.st_mode):
            if key == "path":
                self.add_below(path, (*CODE, *DOCUMENTS), skipping=_NOT_OURS[:2])
        elif stat.S_ISREG(status.st_mode):
            inside = Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self._root))
            is_code = word.lower().endswith(CODE) or bool(status.st_mode & 0o111)
            if (is_code and inside) or not is_given:
                self.add(path)


def texts(value: Any, keys: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yields every text in settings with the keys that lead to it."""
    if isinstance(value, str):
        yield keys, value
    elif isinstance(value, Mapping):
        for key, item in cast("Mapping[str, Any]", value).items():
            yield from texts(item, (*keys, str(key)))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(cast("Sequence[Any]", value)):
            yield from texts(item, (*keys, str(index)))


def _is_program(path: str) -> bool:
    try:
        status = os.stat(path)
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and bool(status.st_mode & 0o111)


def _is_skipped(base: str, name: str, skipping: Sequence[str]) -> bool:
    if not skipping:
        return False
    return name in skipping or name.startswith(".") or os.path.exists(os.path.join(base, name, "pyvenv.cfg"))
