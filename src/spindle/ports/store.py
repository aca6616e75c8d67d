"""Where state lives. One implementation serves all of these protocols."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from spindle.domain.call import CallRecord, Result
from spindle.domain.tool import Tool, ToolSummary


@dataclass(frozen=True, slots=True)
class StoredTool:
    """A tool as stored. `held` is a newer definition that waits for a person to accept it; a tool
    that was never accepted has no `current`."""

    name: str
    current: Tool | None
    held: Tool | None = None


@dataclass(frozen=True, slots=True)
class SourceState:
    """What is known of a source since it was last asked."""

    name: str
    kind: str
    signature: str
    """Of the configuration and, where the source can tell, of its definition."""
    synced_at: float | None
    tool_count: int = 0
    held_count: int = 0
    error: str | None = None
    """Why the last sync failed; the tools are those of the one before."""


@dataclass(frozen=True, slots=True)
class ToolFilter:
    source: str | None = None
    kind: str | None = None
    tag: str | None = None
    pattern: str | None = None
    """A glob over the full name."""


class ToolStore(Protocol):
    async def catalog_version(self) -> int:
        """Changes whenever any process changes the stored tools. Cheap: asked on every call."""
        ...

    async def tool(self, name: str) -> Tool | None: ...
    async def names_ending_in(self, local_name: str) -> list[str]: ...
    async def names(self) -> list[str]: ...
    async def tools(self, where: ToolFilter) -> list[ToolSummary]: ...
    async def search(self, query: str, limit: int) -> list[ToolSummary]: ...
    async def stored_tools(self, source: str) -> list[StoredTool]: ...
    async def sources(self) -> dict[str, SourceState]: ...

    async def replace_tools(self, state: SourceState, tools: Sequence[StoredTool]) -> None:
        """Make these the source's tools, in one transaction."""
        ...

    async def note_failure(self, source: str, kind: str, error: str) -> None: ...
    async def forget_source(self, source: str) -> None: ...


class CallStore(Protocol):
    async def save_call(self, record: CallRecord) -> None:
        """Returns once the record would survive the death of this process. Who awaits it may be
        cancelled meanwhile: the record is kept all the same."""
        ...

    async def calls(
        self, *, limit: int, tool: str | None = None, outcome: str | None = None
    ) -> list[CallRecord]: ...

    async def call(self, key: str) -> CallRecord | None:
        """By its key, or by a beginning of it that only one record has."""
        ...


class CacheStore(Protocol):
    async def cached(self, key: str, now: float) -> Result | None: ...
    async def cache(self, key: str, result: Result, expires_at: float, now: float) -> None: ...
    async def clear_cache(self) -> int: ...


class FileStore(Protocol):
    async def keep(self, data: bytes, mime_type: str | None) -> str:
        """Store binary content and return the path by which a user opens it."""
        ...


class Store(ToolStore, CallStore, CacheStore, Protocol):
    async def close(self) -> None: ...
