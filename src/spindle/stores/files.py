"""Binary content that is too large to carry inline, kept as files named by what they hold."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import mimetypes
import uuid
from pathlib import Path

from spindle.errors import StoreError


class FolderFileStore:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def keep(self, data: bytes, mime_type: str | None) -> str:
        return await asyncio.to_thread(self._write, data, mime_type)

    def _write(self, data: bytes, mime_type: str | None) -> str:
        suffix = mimetypes.guess_extension(mime_type or "") or ".bin"
        path = self._folder / f"{hashlib.sha256(data).hexdigest()[:32]}{suffix}"
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
            raise StoreError(
                f"cannot keep a file in {self._folder}: {error}",
                hint="check that the folder can be written and has space",
            ) from None
        return str(path)
