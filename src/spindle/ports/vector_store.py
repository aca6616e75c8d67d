"""The port of what keeps the vectors of tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from spindle.domain.tool import ToolSummary


@dataclass(frozen=True, slots=True)
class ToolVector:
    """The vector of a tool, and the text and the definition that it is of."""

    name: str
    fingerprint: str
    digest: str
    """Of the text that was given to the model."""
    vector: bytes


class Nearest(NamedTuple):
    """The tools with the vectors nearest to one."""

    found: list[tuple[float, str]]
    """The nearest first, each with how near it is."""
    spread: float
    """The standard deviation of how near all tools are."""


class VectorStore(Protocol):
    """Keeps the vectors of tools, by the model that made them. All who share the store see them."""

    async def vector_version(self) -> int:
        """Returns a number that grows with every change of vectors."""
        ...

    async def vectors(self, model: str, after: int) -> list[tuple[str, bytes]]:
        """Returns the tools whose vectors were stored after this version, and the vectors."""
        ...

    async def without_vectors(self, model: str) -> list[tuple[str, str, str]]:
        """Returns source, name and fingerprint of the accepted tools that have no vector as they are now."""
        ...

    async def vectors_of_texts(self, model: str, digests: Sequence[str]) -> dict[str, bytes]:
        """Returns those vectors that are known of texts with these digests."""
        ...

    async def save_vectors(self, model: str, vectors: Sequence[ToolVector]) -> None:
        """Keeps vectors, in place of those that the tools had of this model."""
        ...

    async def use_model(self, model: str, day: int) -> bool:
        """Notes that the model is used on this day. True if nobody had."""
        ...

    async def forget_vectors(self, before: int) -> int:
        """Deletes the vectors of tools that are gone, and of models that were last used before this day.
        Returns how many there were."""
        ...

    async def index_vectors(self, model: str) -> None:
        """Brings the index of these vectors up to date, where the store can have one for so many."""
        ...

    async def nearest(self, model: str, vector: Sequence[float], count: int) -> Nearest | None:
        """Returns the nearest tools by the index. None where there is no index that holds them all."""
        ...

    async def summaries(self, names: Sequence[str]) -> list[ToolSummary]:
        """Returns the accepted tools of these full names, in any order."""
        ...
