"""The light model: a vector for each part of a word, and for a text their middle. Weights come in a wheel."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from spindle.errors import ConfigurationError
from spindle.ports.embedder import Purpose
from spindle.threads import in_thread

PACKAGE = "wordllama"
INSTALL = "pip install 'spindle-tools[search]'"
_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENS = "tokenizers/l2_supercat_tokenizer_config.json"


class LightEmbedder:
    """Reads the two files of the package itself: the package would ask the network for its tokens."""

    batch = 256

    def __init__(self) -> None:
        from importlib.metadata import PackageNotFoundError, version

        found = find_spec(PACKAGE)
        places = found.submodule_search_locations if found is not None else None
        try:
            self.model = f"{PACKAGE}@{version(PACKAGE)}"
        except PackageNotFoundError:
            places = None
        if not places:
            raise ConfigurationError("the light model of search is not installed", hint=INSTALL)
        from spindle.embedders.weights import middle, read_tokens, read_weights

        folder = Path(next(iter(places)))
        self._middle = middle
        self._weights: Any = read_weights(folder / _WEIGHTS)["embedding.weight"]
        self._tokens = read_tokens(folder / _TOKENS)

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Sequence[Sequence[float]]:
        return await in_thread(lambda: self._embedded(texts), "spindle-embedder")

    def _embedded(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        found = self._tokens.encode_batch_fast(list(texts), add_special_tokens=False)
        return [self._middle(self._weights, item.ids) for item in found]

    async def close(self) -> None:
        return None
