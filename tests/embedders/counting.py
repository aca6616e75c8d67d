"""A model for tests: it knows a few words, and each of them is a direction."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import Any

from spindle.ports.embedder import Purpose

MEANINGS = (
    "mail letter message inbox",
    "song music tune track",
    "weather rain forecast umbrella",
    "file folder disk",
)


class CountingEmbedder:
    """Counts what it is asked for, and fails on request."""

    def __init__(self, model: str = "counting@1", batch: int = 4) -> None:
        self.model = model
        self.batch = batch
        self.texts: list[str] = []
        self.queries: list[str] = []
        self.answer: Callable[[Sequence[str]], Any] | None = None
        self.gate: asyncio.Event | None = None
        self.closed = 0

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Sequence[Sequence[float]]:
        (self.texts if purpose == "tool" else self.queries).extend(texts)
        if self.gate is not None:
            await self.gate.wait()
        if self.answer is not None:
            return self.answer(texts)
        return [meaning_of(text) for text in texts]

    async def close(self) -> None:
        self.closed += 1


def meaning_of(text: str) -> list[float]:
    found = re.findall(r"[a-z]+", text.lower())
    return [float(sum(word in meaning.split() for word in found)) for meaning in MEANINGS] + [0.01]
