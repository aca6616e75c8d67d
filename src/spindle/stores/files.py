"""Keeps binary content that is too large to carry inline, in files named by their hash."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import mimetypes
import uuid
from collections.abc import AsyncIterable, Callable
from pathlib import Path
from typing import Any, TypeVar

from spindle.errors import StoreError

T = TypeVar("T")


class FolderFileStore:
    """Keeps binary content as files in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def keep(self, data: bytes, mime_type: str | None) -> str:
        return await asyncio.to_thread(self._write, data, mime_type)

    async def keep_stream(self, chunks: AsyncIterable[bytes], mime_type: str | None) -> str:
        partial = self._folder / f"{uuid.uuid4().hex}.part"
        digest = hashlib.sha256()

        def start() -> None:
            self._folder.mkdir(parents=True, exist_ok=True)
            partial.touch()

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
        return self._folder / f"{digest[:32]}{mimetypes.guess_extension(mime_type or '') or '.bin'}"

    def _write(self, data: bytes, mime_type: str | None) -> str:
        path = self._path(hashlib.sha256(data).hexdigest(), mime_type)
        if path.exists():
            return str(path)
        partial = path.with_suffix(f".{uuid.uuid4().hex}.part")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            partial.write_bytes(data)
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
