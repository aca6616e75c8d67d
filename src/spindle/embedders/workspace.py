"""The model of a workspace, as its settings name it."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from spindle.embedders.light import INSTALL
from spindle.errors import ConfigurationError
from spindle.settings.search import SearchSettings, search_settings

if TYPE_CHECKING:
    from spindle.catalog.meaning import MeaningSearch, VectorShelf
    from spindle.ports.embedder import Embedder
    from spindle.ports.source import Note
    from spindle.settings import Settings


def meaning_of(
    settings: Settings, environ: Mapping[str, str], stores: Sequence[VectorShelf], note: Note
) -> MeaningSearch | None:
    """Returns what finds tools by meaning; None where `[search]` names no model. Loads nothing yet."""
    wanted = search_settings(settings, environ)
    if wanted.embedder is None:
        return None
    from spindle.catalog.meaning import MeaningSearch

    return MeaningSearch(functools.partial(open_embedder, wanted), stores, note, wanted.timeout)


def open_embedder(wanted: SearchSettings) -> Embedder:
    """Makes the model ready. Raises ConfigurationError where something is missing for it."""
    try:
        return _open(wanted)
    except ImportError as error:
        raise ConfigurationError(
            f"search by meaning needs {error.name}, which is not installed", hint=INSTALL
        ) from None


def _open(wanted: SearchSettings) -> Embedder:
    if find_spec("numpy") is None:  # vectors are compared with it, whoever makes them
        raise ImportError(name="numpy")
    match wanted.embedder:
        case "openai":
            from spindle.embedders.endpoint import EndpointEmbedder

            return EndpointEmbedder(wanted)
        case "folder":
            from spindle.embedders.folder import FolderEmbedder

            assert wanted.folder is not None
            return FolderEmbedder(wanted.folder)
        case _:
            from spindle.embedders.light import LightEmbedder

            return LightEmbedder()
