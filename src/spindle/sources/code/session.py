"""Sessions whose tools are Python code or files of the workspace, read when they are first needed."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from spindle.code_marks import code_of
from spindle.ports.source import Session

if TYPE_CHECKING:
    from spindle.domain.tool import Tool, ToolSpec
    from spindle.ports.source import Note

Found = TypeVar("Found")


class CodeSession(Session, Generic[Found]):
    """The base of such sessions: each tool stands for something that was found in the code."""

    def __init__(self, name: str, root: Path, note: Note, loaded: dict[str, str] | None = None) -> None:
        """`loaded` gets the marks of the code that is loaded (see `CodeSource`)."""
        self._name = name
        self._root = root
        self._note = note
        self._found: dict[str, Found] | None = None
        """By the tools' own names; None until they are first read."""
        self._loading = asyncio.Lock()
        self._loaded = loaded if loaded is not None else {}

    async def discover(self) -> list[ToolSpec]:
        """Reads everything, or reads it again."""
        async with self._loading:
            return await self._discover()

    async def _discover(self) -> list[ToolSpec]:
        pairs = await self._load()
        # Of two with one name the first counts. The catalog refuses them, and names both places.
        self._found = {spec.remote_name: found for spec, found in reversed(pairs)}
        self._loaded.clear()
        self._loaded.update(
            {spec.remote_name: code_of(spec.place, self._root) for spec, _ in reversed(pairs)}
        )
        return [spec for spec, _ in pairs]

    async def _find(self, tool: Tool) -> Found | None:
        """Returns what the tool stands for; None if it is gone."""
        if self._found is None:
            async with self._loading:
                if self._found is None:
                    await self._discover()
        assert self._found is not None
        return self._found.get(tool.spec.remote_name)

    @abstractmethod
    async def _load(self) -> Sequence[tuple[ToolSpec, Found]]:
        """Reads the code, and returns its tools with what they stand for."""
