"""Finds and reads AsyncAPI documents."""

from __future__ import annotations

import contextlib
from pathlib import Path
from urllib.parse import unquote, urlsplit

from spindle.documents.fetch import Fetcher, file_address, load
from spindle.documents.refs import Documents
from spindle.errors import ConfigurationError, SpindleError, suggest
from spindle.http.client import HttpClient
from spindle.ports.source import Note
from spindle.sources.document_changes import ENDINGS, MAX_FILES
from spindle.sources.events.config import EventsConfig

ASYNCAPI = "an AsyncAPI document"
SETTING = "`path` or `url`"


class _Files(Fetcher):
    """Reads the files that a local document refers to, inside one folder."""

    def __init__(self, folder: Path, config: EventsConfig, http: HttpClient) -> None:
        super().__init__(
            http,
            config.max_document_size,
            allow_private=True,
            timeout=config.connect_timeout,
            setting=SETTING,
        )
        self._folder = folder.resolve()

    async def fetch(self, address: str) -> bytes:
        if address.startswith("file://"):
            path = Path(unquote(urlsplit(address).path)).resolve()
            if not path.is_relative_to(self._folder):
                raise ConfigurationError(f"{path} is outside of {self._folder}")
        return await super().fetch(address)


async def documents(config: EventsConfig, root: Path, note: Note) -> list[tuple[Documents, bool]]:
    """The documents, each with True if it is remote. A broken file is noted, and the others are read."""
    async with contextlib.aclosing(HttpClient(config.connect_timeout)) as http:
        return await _documents(config, root, note, http)


async def _documents(
    config: EventsConfig, root: Path, note: Note, http: HttpClient
) -> list[tuple[Documents, bool]]:
    if config.url is not None:
        fetcher = Fetcher(
            http,
            config.max_document_size,
            allow_private=config.allow_private,
            timeout=config.connect_timeout,
            setting=SETTING,
        )
        return [(await load(config.url, fetcher, ASYNCAPI), bool(fetcher.remote))]
    assert config.path is not None
    place = root / config.path
    if place.is_file():
        # A document configured by name must exist and be valid.
        files = _Files(_bounds(place.parent, root), config, http)
        return [(await load(file_address(place), files, ASYNCAPI), False)]
    if not place.is_dir() and place.suffix in ENDINGS:
        raise ConfigurationError(f"there is no file {place}", hint="check `path`")
    found: list[tuple[Documents, bool]] = []
    for path in _in_folder(place, note):
        try:
            loaded = await load(file_address(path), _Files(_bounds(place, root), config, http), ASYNCAPI)
        except SpindleError as error:
            note(f"{error.message}; the file is left out")
            continue
        if _is_meant_as_document(loaded, path, note):
            found.append((loaded, False))
    return found


def _in_folder(folder: Path, note: Note) -> list[Path]:
    if not folder.is_dir():
        return []
    paths = [
        path
        for path in sorted(folder.iterdir())
        if path.suffix in ENDINGS and path.is_file() and not path.name.startswith((".", "_"))
    ]
    if len(paths) > MAX_FILES:
        note(f"{folder} holds {len(paths)} documents; those after the first {MAX_FILES} are left out")
    return paths[:MAX_FILES]


def _bounds(folder: Path, root: Path) -> Path:
    """The folder that references may lead into: the workspace, or else the document's own folder."""
    return root if folder.resolve().is_relative_to(root.resolve()) else folder


def _is_meant_as_document(loaded: Documents, path: Path, note: Note) -> bool:
    """False for a file without a version, which is a part of others; noted if it looks like a whole
    document."""
    root = loaded.main.root
    if "asyncapi" in root:
        return True
    mistyped = suggest("asyncapi", root)
    if mistyped is not None or "operations" in root or "channels" in root:
        meant = f": `{mistyped}` should be `asyncapi`" if mistyped else ""
        note(f"{path} does not say which version of AsyncAPI it is{meant}; the file is left out")
    return False
