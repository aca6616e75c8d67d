"""Files that are put into a folder: each is taken once, when it is whole.

A file is moved to `.taken/KEY/NAME` below the folder, with a mark in `.taken/pending` from before the move
until its run is submitted. So a crash in between loses no file: the mark is found, and the same key is
submitted again. Files that were taken long ago, or are too many, are removed.
"""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import json
import os
import re
import shutil
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spindle.domain.json_schema import JsonObject
from spindle.errors import ConfigurationError

TAKEN: Final = ".taken"
PENDING: Final = "pending"
AT_ONCE: Final = 100
"""Files that one look takes."""
LOOKED_AT: Final = 100_000
"""Files of a folder that one look goes through."""
MOST_SPENT: Final = 1000
"""Files that were taken before and that one look removes."""
_KEY: Final = re.compile(r"[0-9a-f]{32}")
_PARTIAL: Final = (".part", ".partial", ".tmp", ".crdownload", ".filepart", "~")
"""Ends of the names under which programs write files that are not whole yet."""


@dataclass(frozen=True, slots=True)
class FileDrop:
    """A file that was taken, and whose run is not submitted yet."""

    key: str
    name: str
    file: Path
    mark: Path

    def event(self) -> JsonObject:
        """Returns the event as templates see it."""
        size = self.file.stat().st_size if self.file.exists() else 0
        return {"id": self.key, "name": self.name, "path": str(self.file), "size": size}

    def done(self) -> None:
        """Says that its run is submitted."""
        self.mark.unlink(missing_ok=True)


class FileDrops:
    """The files of one folder."""

    def __init__(
        self, folder: Path, pattern: str, settle: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._folder = folder
        self._clock = clock
        self._pattern = pattern
        self._settle = settle
        self._seen: dict[str, tuple[str, float]] = {}
        """The state of each file at the last look, and since when it is so."""

    def take(self) -> list[FileDrop]:
        """Takes files that have not changed for a while, and returns them with those that were taken before
        and have no run yet. Raises ConfigurationError if the folder cannot be read."""
        try:
            drops = self._left()
            seen: dict[str, tuple[str, float]] = {}
            now = self._clock()
            with os.scandir(self._folder) as entries:
                for number, entry in enumerate(entries):
                    if number >= LOOKED_AT:
                        break
                    state = self._state(entry)
                    if state is None:
                        continue
                    known, since = self._seen.get(entry.name, ("", now))
                    seen[entry.name] = (state, since if known == state else now)
                    is_whole = known == state and now - since >= self._settle
                    if is_whole and len(drops) < AT_ONCE:
                        drop = self._taken(entry.name, state)
                        drops += [] if drop is None else [drop]
            self._seen = seen
            return drops
        except OSError as error:
            raise ConfigurationError(
                f"the folder {self._folder} cannot be watched: {error.strerror or error}",
                hint="make it, and let the worker write in it",
            ) from None

    def spent(self, age: float | None, count: int | None, now: float) -> list[str]:
        """Returns keys of files that were taken more than `age` seconds ago, or before the newest `count`,
        and whose runs are submitted; the oldest first, at most so many as one look takes."""
        taken: list[tuple[float, str]] = []
        with contextlib.suppress(FileNotFoundError), os.scandir(self._folder / TAKEN) as entries:
            for number, entry in enumerate(entries):
                if number >= LOOKED_AT:
                    break
                if _KEY.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                    with contextlib.suppress(FileNotFoundError):
                        taken.append((entry.stat(follow_symlinks=False).st_mtime, entry.name))
        taken.sort()
        surplus = 0 if count is None else max(len(taken) - count, 0)
        over = [
            key
            for number, (at, key) in enumerate(taken)
            if number < surplus or (age is not None and now - at > age)
        ]
        return [key for key in over if not (self._folder / TAKEN / PENDING / key).exists()][:MOST_SPENT]

    def remove(self, key: str) -> None:
        """Removes a file that was taken, with all that a flow put beside it."""
        shutil.rmtree(self._folder / TAKEN / key, ignore_errors=True)

    def _state(self, entry: os.DirEntry[str]) -> str | None:
        """Returns a text that changes when the file does; None for what is not taken."""
        name = entry.name
        if name.startswith(".") or name.endswith(_PARTIAL) or not fnmatch.fnmatchcase(name, self._pattern):
            return None
        try:
            found = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            return None  # moved away meanwhile
        if not stat.S_ISREG(found.st_mode):
            return None  # a link could lead anywhere
        return f"{found.st_ino}.{found.st_size}.{found.st_mtime_ns}"

    def _taken(self, name: str, state: str) -> FileDrop | None:
        key = hashlib.sha256(json.dumps([name, state]).encode()).hexdigest()[:32]
        drop = self._drop(key, name)
        drop.mark.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        drop.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        drop.mark.write_text(json.dumps(name))
        try:
            (self._folder / name).rename(drop.file)
        except FileNotFoundError:  # another took it, or it was moved away
            drop.done()
            with contextlib.suppress(OSError):
                drop.file.parent.rmdir()
            return None
        return drop

    def _drop(self, key: str, name: str) -> FileDrop:
        taken = self._folder / TAKEN
        return FileDrop(key, name, taken / key / name, taken / PENDING / key)

    def _left(self) -> list[FileDrop]:
        """Returns files that were taken before a crash, or while the queue was full."""
        drops: list[FileDrop] = []
        with contextlib.suppress(FileNotFoundError), os.scandir(self._folder / TAKEN / PENDING) as marks:
            for entry in marks:
                if len(drops) >= AT_ONCE:
                    break
                try:
                    name = json.loads(Path(entry.path).read_text())
                except ValueError:
                    name = None  # the crash came while it was written: nothing was moved yet
                drop = self._drop(entry.name, name) if isinstance(name, str) and "/" not in name else None
                if drop is not None and drop.file.is_file():
                    drops.append(drop)
                else:
                    os.unlink(entry.path)
        return drops
