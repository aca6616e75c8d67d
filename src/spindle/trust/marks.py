"""The marks of trusted workspaces: one file for each, in the user's own folder."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from spindle.errors import ConfigurationError
from spindle.owner_only import make_folder

MAX_DIGESTS = 32
"""States of a workspace that stay trusted, so that switching between branches asks once for each."""
MAX_MARK = 8_000_000
MAX_MARKS = 10_000
_VERSION = 1


class DamagedMarkError(ConfigurationError):
    """The mark of a workspace cannot be used."""


@dataclass(frozen=True)
class Mark:
    """A person's trust in the workspace at one real path, in states that it has had."""

    path: str
    digests: tuple[str, ...]
    """The trusted states, the latest first."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """The files of the latest one."""
    repositories: Mapping[str, str] = field(default_factory=dict[str, str])
    """The repositories of those files, and how far their logs went."""
    folder: int = 0
    """The inode of the folder: another one at the same path is another workspace."""
    exact: bool = False
    """True if every change is asked about."""
    at: float = 0.0

    def now_in(self, digest: str, files: Mapping[str, str], repositories: Mapping[str, str]) -> Mark:
        """The same mark for another state, which is trusted too."""
        others = [known for known in self.digests if known != digest]
        digests = (digest, *others)[:MAX_DIGESTS]
        return replace(self, digests=digests, files=files, repositories=repositories, at=time.time())

    def to_dict(self) -> dict[str, Any]:
        """The mark as it is stored."""
        return {
            "version": _VERSION,
            "path": self.path,
            "digests": list(self.digests),
            "files": dict(self.files),
            "repositories": dict(self.repositories),
            "folder": self.folder,
            "exact": self.exact,
            "at": self.at,
        }


class Marks:
    """The marks in one folder. Every write replaces a whole file, one process at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def file(self, path: str) -> Path:
        """The file of the mark for a real path."""
        name = hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:40]
        return self.folder / f"{name}.json"

    def read(self, path: str) -> Mark | None:
        """The mark for a real path; None without one. Raises DamagedMarkError for one that cannot be used."""
        mark = self._read(self.file(path))
        if mark is not None and mark.path != path:
            raise self._damaged(self.file(path), "it is for another folder")
        return mark

    def all(self) -> Iterator[Mark]:
        """All marks that can be read, by path."""
        found: list[Mark] = []
        for file in sorted(self.folder.glob("*.json"))[:MAX_MARKS]:
            with contextlib.suppress(DamagedMarkError):
                if (mark := self._read(file)) is not None:
                    found.append(mark)
        yield from sorted(found, key=lambda mark: mark.path)

    def update(self, path: str, change: Callable[[Mark | None], Mark | None]) -> None:
        """Stores what `change` makes of the mark for a real path, which is None where there is no usable
        one; nothing if it makes None. No other process writes meanwhile."""
        with self._locked():
            try:
                known = self.read(path)
            except DamagedMarkError:
                known = None
            if (changed := change(known)) is not None:
                self._write(changed)

    def _write(self, mark: Mark) -> None:
        file = self.file(mark.path)
        # ASCII with escapes: a path that is no valid text comes back as it was.
        text = json.dumps(mark.to_dict(), indent=1)
        partial = file.with_name(f".{file.name}.{os.getpid()}.part")
        try:
            partial.unlink(missing_ok=True)
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with open(descriptor, "w", encoding="ascii") as handle:
                handle.write(text)
                handle.flush()
                os.fsync(descriptor)
            partial.replace(file)
        except OSError as error:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
            raise ConfigurationError(f"the mark {file} cannot be written: {error.strerror}") from None

    def remove(self, path: str) -> bool:
        """Removes a mark, also one that cannot be read. Returns False if there was none."""
        if not self.folder.is_dir():
            return False
        with self._locked():
            try:
                self.file(path).unlink()
            except FileNotFoundError:
                return False
            except OSError as error:
                raise ConfigurationError(
                    f"the mark {self.file(path)} cannot be removed: {error.strerror}"
                ) from None
        return True

    def _read(self, file: Path) -> Mark | None:
        try:
            descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._damaged(file, str(error.strerror)) from None
        with open(descriptor, "rb") as handle:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise self._damaged(file, "it is not a file")
            if status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise self._damaged(file, "others can write to it")
            text = handle.read(MAX_MARK + 1)
        try:
            data = json.loads(text) if len(text) <= MAX_MARK else None
        except (ValueError, RecursionError):
            data = None
        mark = _mark_of(data)
        if mark is None:
            raise self._damaged(file, "it does not hold what Spindle writes there")
        return mark

    def _damaged(self, file: Path, why: str) -> DamagedMarkError:
        return DamagedMarkError(f"the mark {file} cannot be used: {why}")

    @contextlib.contextmanager
    def _locked(self) -> Generator[None]:
        import fcntl

        try:
            make_folder(self.folder)
            self.folder.chmod(0o700)
            descriptor = os.open(
                self.folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
            )
        except OSError as error:
            raise ConfigurationError(f"marks cannot be kept in {self.folder}: {error.strerror}") from None
        try:
            # Held for one write of a small file.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _mark_of(data: Any) -> Mark | None:
    """Returns the stored mark; None for anything else, such as the mark of another version."""
    if not isinstance(data, dict):
        return None
    given = cast("dict[str, Any]", data)
    path, digests = given.get("path"), given.get("digests")
    folder, at = given.get("folder"), given.get("at")
    if given.get("version") != _VERSION or not isinstance(path, str) or not _is_texts(digests):
        return None
    if not isinstance(folder, int) or not isinstance(at, (int, float)):
        return None
    files, repositories = _texts_by_text(given.get("files")), _texts_by_text(given.get("repositories"))
    if files is None or repositories is None or not isinstance(given.get("exact"), bool):
        return None
    return Mark(
        path, tuple(cast("list[str]", digests)), files, repositories, folder, given["exact"], float(at)
    )


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in cast("list[Any]", value))


def _texts_by_text(value: Any) -> dict[str, str] | None:
    if not isinstance(value, dict):
        return None
    items = cast("dict[Any, Any]", value).items()
    if not all(isinstance(key, str) and isinstance(item, str) for key, item in items):
        return None
    return cast("dict[str, str]", value)
