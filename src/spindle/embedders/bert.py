"""The forward pass of BERT, with numpy alone: enough for the small models that search is made with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from spindle.errors import ConfigurationError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

AT_ONCE = 4096
"""Parts of words that are computed together: some 30 MB for a model of 384 numbers."""


class Bert:
    """The layers of a model, and the vector that it gives each part of a text."""

    def __init__(self, weights: Mapping[str, NDArray[Any]], config: Mapping[str, Any]) -> None:
        """Raises ConfigurationError for what is not all there."""
        prefix = "bert." if "bert.embeddings.word_embeddings.weight" in weights else ""
        try:
            self._heads = int(config["num_attention_heads"])
            self._tiny = np.float32(config.get("layer_norm_eps", 1e-12))
            self._layers = int(config["num_hidden_layers"])
            self._weights = {
                name.removeprefix(prefix): np.asarray(value, np.float32) for name, value in weights.items()
            }
            self._words = self._weights["embeddings.word_embeddings.weight"]
            self._positions = self._weights["embeddings.position_embeddings.weight"]
            self._kind = self._weights["embeddings.token_type_embeddings.weight"][0]
            self.passed([[0]])
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise ConfigurationError(
                f"the weights of the model are not those of its config.json: {error}"
            ) from None

    @property
    def longest(self) -> int:
        """The number of parts that a text may have."""
        return len(self._positions)

    def passed(self, ids: Sequence[Sequence[int]]) -> tuple[Floats, Floats]:
        """Returns the vectors of the parts of each text, and a mask: 1 for a part, 0 beyond a text's end."""
        length = max(map(len, ids))
        padded = np.zeros((len(ids), length), np.int64)
        mask = np.zeros((len(ids), length), np.float32)
        for row, parts in enumerate(ids):
            padded[row, : len(parts)] = parts
            mask[row, : len(parts)] = 1
        x = self._normal(self._words[padded] + self._positions[:length] + self._kind, "embeddings.LayerNorm")
        away = (1 - mask)[:, None, None, :] * np.float32(-1e9)
        for layer in range(self._layers):
            x = self._layer(x, away, f"encoder.layer.{layer}")
        return x, mask

    def _layer(self, x: Floats, away: Floats, at: str) -> Floats:
        texts, length, width = x.shape
        size = width // self._heads

        def heads(name: str) -> Floats:
            made = self._linear(x, f"{at}.attention.self.{name}")
            return made.reshape(texts, length, self._heads, size).transpose(0, 2, 1, 3)

        scores = heads("query") @ heads("key").transpose(0, 1, 3, 2) / np.float32(np.sqrt(size)) + away
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        scores /= scores.sum(axis=-1, keepdims=True)
        seen = (scores @ heads("value")).transpose(0, 2, 1, 3).reshape(texts, length, width)
        x = self._normal(
            x + self._linear(seen, f"{at}.attention.output.dense"), f"{at}.attention.output.LayerNorm"
        )
        inner = _gelu(self._linear(x, f"{at}.intermediate.dense"))
        return self._normal(x + self._linear(inner, f"{at}.output.dense"), f"{at}.output.LayerNorm")

    def _linear(self, x: Floats, name: str) -> Floats:
        return x @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]

    def _normal(self, x: Floats, name: str) -> Floats:
        x = x - x.mean(axis=-1, keepdims=True)
        x /= np.sqrt((x * x).mean(axis=-1, keepdims=True) + self._tiny)
        return x * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]


def _gelu(x: Floats) -> Floats:
    """x · Φ(x), by Abramowitz and Stegun 7.1.26: off by less than 2e-7, and numpy has no erf."""
    z = np.abs(x) * np.float32(0.7071067811865476)
    t = 1 / (1 + np.float32(0.3275911) * z)
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    erf = np.sign(x) * (1 - series * np.exp(-z * z))
    return (np.float32(0.5) * x * (1 + erf)).astype(np.float32)
