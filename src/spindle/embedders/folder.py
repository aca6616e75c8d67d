"""A model of sentence-transformers in a folder of this machine.

BERT and static embeddings, which is what small models are made of, are computed here; for all others the
library is asked, where it is installed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from spindle.domain.json_schema import JsonObject, from_json, is_object
from spindle.errors import ConfigurationError, ServerError
from spindle.ports.embedder import Purpose
from spindle.threads import in_thread

if TYPE_CHECKING:
    from numpy.typing import NDArray

LIBRARY: Final = "sentence_transformers"
MAX_CONFIG: Final = 1024 * 1024
_WEIGHTS: Final = "model.safetensors"
_DOCUMENT_PROMPTS: Final = ("document", "passage")

Work = Callable[[Sequence[str]], Sequence[Sequence[float]]]


class FolderEmbedder:
    """Reads the folder once, and computes in one thread at a time."""

    batch = 32

    def __init__(self, folder: Path) -> None:
        """Raises ConfigurationError where the folder holds no model that can be used."""
        if not folder.is_dir():
            raise ConfigurationError(f"search.folder is not a folder: {folder}")
        self.model = f"{folder.name}@{_digest(folder)}"
        prompts = _config(folder / "config_sentence_transformers.json").get("prompts")
        said = (
            {name: text for name, text in prompts.items() if isinstance(text, str)}
            if is_object(prompts)
            else {}
        )
        self._prompts: dict[Purpose, str] = {
            "query": said.get("query", ""),
            "tool": next((said[name] for name in _DOCUMENT_PROMPTS if name in said), ""),
        }
        self._work = _static(folder) or _bert(folder) or _by_library(folder)

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Sequence[Sequence[float]]:
        marked = [self._prompts[purpose] + text for text in texts]
        return await in_thread(lambda: self._work(marked), "spindle-embedder")

    async def close(self) -> None:
        return None


# --- reading the folder


def _config(file: Path) -> JsonObject:
    """The JSON object in a file; an empty one where there is no file."""
    try:
        with file.open("rb") as opened:
            read: Any = from_json(opened.read(MAX_CONFIG))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"a file of the model cannot be read: {file}: {error}") from None
    if not is_object(read):
        raise ConfigurationError(f"a file of the model is not a JSON object: {file}")
    return read


def _modules(folder: Path) -> list[tuple[str, Path]]:
    """The parts of the model in their order: the kind of each, and its folder."""
    file = folder / "modules.json"
    if not file.exists():
        if not (folder / "config.json").exists():
            raise ConfigurationError(
                f"search.folder holds no model: {folder}",
                hint="it is a folder of sentence-transformers, with modules.json or config.json",
            )
        return [("Transformer", folder)]
    try:
        listed: Any = from_json(file.read_bytes()[:MAX_CONFIG])
        found = [(item["type"].rpartition(".")[2], folder / item.get("path", "")) for item in listed]
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise ConfigurationError(f"a file of the model cannot be read: {file}") from None
    if not found or not all(path.resolve().is_relative_to(folder.resolve()) for _, path in found):
        raise ConfigurationError(f"a file of the model names parts outside of its folder: {file}")
    return found


def _digest(folder: Path) -> str:
    """Tells models apart: of all files that its vectors may depend on."""
    made = hashlib.blake2b(digest_size=12)
    files = (
        file
        for file in folder.rglob("*")
        if file.suffix in (".json", ".txt", ".safetensors", ".bin", ".model")
    )
    for file in sorted(files):
        made.update(str(file.relative_to(folder)).encode("utf-8", "surrogateescape"))
        with file.open("rb") as opened:
            while piece := opened.read(1024 * 1024):
                made.update(piece)
    return made.hexdigest()


# --- computing


def _static(folder: Path) -> Work | None:
    parts = _modules(folder)
    if parts[0][0] != "StaticEmbedding" or any(kind != "Normalize" for kind, _ in parts[1:]):
        return None
    from spindle.embedders.weights import middle, read_tokens, read_weights

    place = parts[0][1]
    tables = read_weights(place / _WEIGHTS)
    weights = tables.get("embedding.weight", tables.get("embeddings"))
    if weights is None or weights.ndim != 2:
        raise ConfigurationError(f"the weights of the model have no table of vectors: {place / _WEIGHTS}")
    tokens = read_tokens(place / "tokenizer.json")
    known: NDArray[Any] = weights

    def work(texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return [
            middle(known, item.ids)
            for item in tokens.encode_batch_fast(list(texts), add_special_tokens=False)
        ]

    return work


def _bert(folder: Path) -> Work | None:
    parts = _modules(folder)
    kinds = [kind for kind, _ in parts]
    place = parts[0][1]
    config = _config(place / "config.json")
    is_plain = (
        config.get("model_type") == "bert"
        and config.get("hidden_act", "gelu") == "gelu"
        and config.get("position_embedding_type", "absolute") == "absolute"
    )
    pooling = _pooling(parts)
    files = ((place / _WEIGHTS), (place / "tokenizer.json"))
    if (
        not is_plain
        or pooling is None
        or kinds[0] != "Transformer"
        or not all(file.exists() for file in files)
    ):
        return None
    import numpy as np

    from spindle.catalog.vectors import one_thread
    from spindle.embedders.bert import AT_ONCE, Bert
    from spindle.embedders.weights import read_tokens, read_weights

    model = Bert(read_weights(files[0]), config)
    tokens = read_tokens(files[1])
    limit = _config(place / "sentence_bert_config.json").get("max_seq_length")
    tokens.enable_truncation(
        min(limit, model.longest) if isinstance(limit, int) and limit > 2 else model.longest
    )

    def work(texts: Sequence[str]) -> Sequence[Sequence[float]]:
        ids: list[list[int]] = [item.ids or [0] for item in tokens.encode_batch_fast(list(texts))]
        made: list[Any] = [None] * len(ids)
        # Those of a length together: what is computed beyond the end of a text is for nothing.
        waiting = sorted(range(len(ids)), key=lambda place: len(ids[place]))
        while waiting:
            longest = len(ids[waiting[-1]])
            count = max(AT_ONCE // longest, 1)
            part, waiting = waiting[-count:], waiting[:-count]
            with one_thread():
                seen, mask = model.passed([ids[place] for place in part])
            if pooling == "cls":
                vectors = seen[:, 0]
            else:
                vectors = (seen * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
            for place, vector in zip(part, np.asarray(vectors, np.float32), strict=True):
                made[place] = vector
        return made

    return work


def _pooling(parts: Sequence[tuple[str, Path]]) -> str | None:
    """Returns `mean` or `cls`, by which the vectors of a text become one; None for another way."""
    rest = [(kind, path) for kind, path in parts[1:] if kind != "Normalize"]
    if not rest:
        return "mean"
    if len(rest) > 1 or rest[0][0] != "Pooling":
        return None
    config = _config(rest[0][1] / "config.json")
    if "pooling_mode" in config:
        mode = config["pooling_mode"]
        return mode if mode in ("mean", "cls") else None
    on = [name for name, value in config.items() if name.startswith("pooling_mode_") and value is True]
    ways = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
    return ways.get(on[0]) if len(on) == 1 else None


def _by_library(folder: Path) -> Work:
    if find_spec(LIBRARY) is None:
        kinds = ", ".join(kind for kind, _ in _modules(folder))
        family = _config(_modules(folder)[0][1] / "config.json").get("model_type", "unknown")
        raise ConfigurationError(
            f"the model in {folder} is of a kind that is not built in: {kinds} ({family})",
            hint="pip install sentence-transformers",
        )
    try:
        library: Any = import_module(LIBRARY)
        loaded: Any = library.SentenceTransformer(str(folder), local_files_only=True)
    except Exception as error:  # of the library, and of all that it is made of  # noqa: BLE001
        raise ConfigurationError(f"the model in {folder} cannot be loaded: {error}") from None

    def work(texts: Sequence[str]) -> Sequence[Sequence[float]]:
        try:
            return loaded.encode(list(texts), show_progress_bar=False, prompt="")
        except Exception as error:  # as above  # noqa: BLE001
            raise ServerError(f"the model in {folder} failed: {error}") from None

    return work
