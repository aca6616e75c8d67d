"""The port of a store for content that is too large for a result."""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import Protocol


class FileStore(Protocol):
    """Keeps binary content that is too large for a result."""

    async def keep(self, data: bytes, mime_type: str | None) -> str:
        """Stores binary content and returns the path by which a user opens it."""
        ...

    def holds(self, path: str) -> bool:
        """True if the path is that of content that was kept here."""
        ...

    async def keep_stream(self, chunks: AsyncIterable[bytes], mime_type: str | None) -> str:
        """Stores content that is still arriving, without holding it in memory, and returns its path.
        Nothing of it stays when `chunks` ends with an error or the awaiting task is cancelled."""
        ...
