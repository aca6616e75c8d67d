"""Keeps binary content that is too large to carry inline, in files named by their hash."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import uuid
from collections.abc import AsyncIterable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

from spindle.errors import StoreError
from spindle.owner_only import make_file, make_folder, open_file

T = TypeVar("T")

NAME = re.compile(rb"[0-9a-f]{32}\.[0-9A-Za-z+._-]{1,20}")
"""The name of a kept file, wherever it stands in a text."""
_PARTIAL = ".part"


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file in the folder as pruning sees it."""

    name: str
    at: float
    """When it was last kept. The same content kept again is the same file."""
    size: int

    @property
    def is_partial(self) -> bool:
        """True while it is being written, or if that was broken off."""
        return self.name.endswith(_PARTIAL)


class FolderFileStore:
    """Keeps binary content as files in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def keep(self, data: bytes, mime_type: str | None) -> str:
        return await asyncio.to_thread(self._write, data, mime_type)

    def holds(self, path: str) -> bool:
        file = Path(path)
        return file.parent == self._folder and NAME.fullmatch(file.name.encode()) is not None

    async def keep_stream(self, chunks: AsyncIterable[bytes], mime_type: str | None) -> str:
        partial = self._folder / f"{uuid.uuid4().hex}{_PARTIAL}"
        digest = hashlib.sha256()

        def start() -> None:
            make_folder(self._folder)
            make_file(partial)

        def append(data: bytes) -> None:
            digest.update(data)
            with partial.open("ab") as file:
                file.write(data)

        def finish() -> Path:
            path = self._path(digest.hexdigest(), mime_type)
            partial.replace(path)
            return path

        try:
            await self._in_thread(start)
            async for chunk in chunks:
                await self._in_thread(append, chunk)
            return str(await self._in_thread(finish))
        finally:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)

    def list_kept(self) -> list[KeptFile]:
        """Returns all files of the folder, the newest first."""
        found: list[KeptFile] = []
        with contextlib.suppress(FileNotFoundError), os.scandir(self._folder) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    facts = entry.stat(follow_symlinks=False)
                    if entry.is_file(follow_symlinks=False):
                        found.append(KeptFile(entry.name, facts.st_mtime, facts.st_size))
        return sorted(found, key=lambda file: (file.at, file.name), reverse=True)

    def open_kept(self, name: str) -> IO[bytes]:
        """Opens a kept file to be read."""
        return os.fdopen(os.open(self._folder / name, os.O_RDONLY | os.O_NOFOLLOW), "rb")

    def remove(self, file: KeptFile) -> bool:
        """Removes a file, unless the same content was kept again since it was listed. True: it is gone."""
        path = self._folder / file.name
        aside = path.with_name(f"{uuid.uuid4().hex}{_PARTIAL}")
        try:
            if path.stat().st_mtime > file.at:
                return False
            # First out of the way, then another look: whoever keeps the same meanwhile has either touched
            # this one, and gets it back, or does not find it, and writes it anew.
            path.rename(aside)
            if aside.stat().st_mtime > file.at:
                aside.rename(path)
                return False
            aside.unlink()
        except FileNotFoundError:
            return False
        return True

    async def _in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        """Runs `work` in a thread and waits for it even when cancelled: a file must be complete to be
        removed."""
        running = asyncio.ensure_future(asyncio.to_thread(work, *arguments))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.wait([running])
            running.exception()
            raise
        except OSError as error:
            raise self._failure(error) from None

    def _path(self, digest: str, mime_type: str | None) -> Path:
        import mimetypes

        return self._folder / f"{digest[:32]}{mimetypes.guess_extension(mime_type or '') or '.bin'}"

    def _write(self, data: bytes, mime_type: str | None) -> str:
        path = self._path(hashlib.sha256(data).hexdigest(), mime_type)
        with contextlib.suppress(OSError):
            os.utime(path)  # kept again: it counts as new
            return str(path)
        partial = path.with_name(f"{uuid.uuid4().hex}{_PARTIAL}")
        try:
            make_folder(self._folder)
            with open_file(partial) as file:
                file.write(data)
            partial.replace(path)
        except OSError as error:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
            raise self._failure(error) from None
        return str(path)

    def _failure(self, error: OSError) -> StoreError:
        return StoreError(
            f"cannot keep a file in {self._folder}: {error}",
            hint="check that the folder can be written and has space",
        )
