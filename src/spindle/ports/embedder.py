"""The port of models that turn texts into vectors, so that what means the same is near each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

Purpose = Literal["tool", "query"]
"""The use of a text: some models want questions marked as such."""

MAX_DIMENSIONS = 8192
"""Numbers of one vector."""


class Embedder(Protocol):
    """A model that can be asked for the vectors of texts."""

    @property
    def model(self) -> str:
        """The model, and all that its vectors depend on: only vectors of the same are compared."""
        ...

    @property
    def batch(self) -> int:
        """The number of texts that it takes best at once."""
        ...

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Sequence[Sequence[float]]:
        """Returns a vector for each text, in their order, all of the same length. Raises SpindleError where
        the model cannot be used."""
        ...

    async def close(self) -> None:
        """Gives back what it holds."""
        ...
