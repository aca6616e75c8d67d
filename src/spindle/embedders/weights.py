"""Reads the files of a model: its weights, and how texts are taken apart."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors.numpy import load_file  # pyright: ignore[reportUnknownVariableType]
from tokenizers import Tokenizer

from spindle.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def read_weights(file: Path) -> dict[str, NDArray[Any]]:
    """Returns the tables of numbers of a model by name. Raises ConfigurationError."""
    try:
        return load_file(file)
    except Exception as error:  # the library has errors of its own for a damaged file  # noqa: BLE001
        raise ConfigurationError(f"the weights of a model cannot be read: {file}: {error}") from None


def read_tokens(file: Path) -> Any:
    """Returns what takes texts apart into the parts that a model knows. Raises ConfigurationError."""
    try:
        made: Any = Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises nothing more exact  # noqa: BLE001
        raise ConfigurationError(f"the tokens of a model cannot be read: {file}: {error}") from None
    made.no_padding()
    return made


def middle(weights: NDArray[Any], ids: Sequence[int]) -> Any:
    """Returns the middle of the vectors of these parts; zeros where there are none."""
    if not ids:
        return np.zeros(weights.shape[1], np.float32)
    return weights[ids].mean(axis=0, dtype=np.float32)
