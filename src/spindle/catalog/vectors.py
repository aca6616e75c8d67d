"""Vectors of tools in memory, and the exact scan through them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import ThreadpoolController  # pyright: ignore[reportMissingTypeStubs]

from spindle.errors import ServerError
from spindle.ports.embedder import MAX_DIMENSIONS
from spindle.ports.vector_store import Nearest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]


MAX_FLOATS = 160_000_000
"""Numbers that are held in memory, of 4 bytes each: 100,000 tools of a model of 1,536 numbers."""
_pools: Any = ThreadpoolController()


def one_thread() -> AbstractContextManager[object]:
    """Computes in this thread alone. On a machine with other work the threads of a product wait for each
    other longer than they compute, and all of them hold up the event loop."""
    return _pools.limit(limits=1, user_api="blas")


def checked(vectors: Sequence[Sequence[float]], count: int) -> Floats:
    """Returns the vectors of a model, each of length 1. Raises ServerError for what are none."""
    if len(vectors) != count:
        raise ServerError(f"the model returned {len(vectors)} vectors for {count} texts")
    try:
        made = np.asarray(vectors, dtype=np.float32)
    except (TypeError, ValueError, OverflowError):
        raise ServerError("the model returned vectors of different lengths, or not of numbers") from None
    if made.ndim != 2 or not 0 < made.shape[1] <= MAX_DIMENSIONS:
        raise ServerError(f"the model returned vectors that are empty or longer than {MAX_DIMENSIONS}")
    with np.errstate(over="ignore"):
        lengths = np.linalg.norm(made, axis=1, keepdims=True)
    if not bool(np.isfinite(lengths).all()):
        raise ServerError("the model returned numbers that are not finite")
    return made / np.maximum(lengths, np.float32(1e-12))


def packed(vector: Floats) -> bytes:
    """Returns a vector as it is stored: of length 1, in numbers of 2 bytes, exact enough to rank by."""
    return (vector / max(float(np.linalg.norm(vector)), 1e-12)).astype("<f2").tobytes()


class Vectors:
    """The vectors of many tools, by name. All have the same length; others are left out."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._places: dict[str, int] = {}
        self._rows = np.zeros((0, 0), np.float32)
        self.left_out = 0
        """Tools for which there is no room."""

    def __len__(self) -> int:
        return len(self._names)

    def take(self, stored: Sequence[tuple[str, bytes]], dimensions: int) -> None:
        """Adds vectors as they are stored, in place of those that the tools had."""
        if self._rows.shape[1] != dimensions:
            self._names, self._places, self.left_out = [], {}, 0
            self._rows = np.zeros((0, dimensions), np.float32)
        room = MAX_FLOATS // max(dimensions, 1)
        fitting = {name: data for name, data in stored if len(data) == 2 * dimensions}
        new = [name for name in fitting if name not in self._places]
        for name in new[max(room - len(self._names), 0) :]:
            del fitting[name]
            self.left_out += 1
        size = len(self._names) + sum(name not in self._places for name in fitting)
        if size > len(self._rows):
            grown = np.zeros((min(max(size, 2 * len(self._rows)), room), dimensions), np.float32)
            grown[: len(self._names)] = self._rows[: len(self._names)]
            self._rows = grown
        for name, data in fitting.items():
            place = self._places.setdefault(name, len(self._names))
            if place == len(self._names):
                self._names.append(name)
            vector = np.frombuffer(data, "<f2").astype(np.float32)
            self._rows[place] = vector / max(float(np.linalg.norm(vector)), 1e-12)

    def drop(self, names: Sequence[str]) -> None:
        """Removes tools that are gone."""
        for name in names:
            place = self._places.pop(name, None)
            if place is None:
                continue
            last = self._names.pop()
            if last != name:
                self._names[place] = last
                self._places[last] = place
                self._rows[place] = self._rows[len(self._names)]

    def nearest(self, query: Floats, count: int) -> Nearest:
        """Returns the tools whose vectors are nearest."""
        if not self._names or self._rows.shape[1] != len(query):
            return Nearest([], 0.0)
        with one_thread():
            scores = self._rows[: len(self._names)] @ query
        many = len(scores)
        best = np.argpartition(-scores, count)[:count] if count < many else np.arange(many)
        found = [(float(scores[place]), self._names[place]) for place in best]
        return Nearest(sorted(found, key=lambda item: (-item[0], item[1])), float(scores.std()))
