"""Documents from files and URLs, each with everything that it refers to."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urldefrag, urljoin

from spindle.documents.places import TextError
from spindle.documents.refs import Document, Documents, references, shown
from spindle.documents.text import MAX_SIZE, Bounds, read_any
from spindle.domain.json_schema import is_object
from spindle.errors import ConfigurationError, SpindleError

MAX_DOCUMENTS: Final = 100
"""Other documents that one may refer to, directly or not: each of them is fetched."""

OPENAPI: Final = "an OpenAPI document"
_OUTSIDE = re.compile(rb"\$ref[\"']?\s*:\s*[\"']?[^#\"'\s]")


class FetchesDocuments(Protocol):
    """Reads the documents of one source, all of them within one limit."""

    @property
    def limit(self) -> int: ...

    async def fetch(self, address: str) -> bytes: ...

    def landed(self, address: str) -> str: ...


async def load(address: str, fetcher: FetchesDocuments, what: str = OPENAPI) -> Documents:
    """Returns the document at an address (a URL, or a file's as `file://…`) with everything it refers to."""
    data = await fetcher.fetch(address)
    where = fetcher.landed(address)
    try:
        main = await asyncio.to_thread(parse, where, data, what, fetcher.limit)
    except ConfigurationError as error:
        if where == address:
            raise
        raise ConfigurationError(f"{address} redirects: {error.message}", hint=error.hint) from None
    return await complete(main, data, fetcher, what)


async def complete(main: Document, data: bytes, fetcher: FetchesDocuments, what: str = OPENAPI) -> Documents:
    """Returns a document with everything it refers to. `data` is its text."""
    others: dict[str, Document] = {}
    missing: dict[str, str] = {}
    waiting = _outside_addresses(main, data)
    while waiting:
        where = waiting.pop(0)
        if where == main.address or where in others or where in missing:
            continue
        if len(others) + len(missing) >= MAX_DOCUMENTS:
            raise ConfigurationError(
                f"{shown(main.address)} refers to more than {MAX_DOCUMENTS} other documents",
                hint="bundle them into one",
            )
        try:
            data = await fetcher.fetch(where)
            found = await asyncio.to_thread(parse, where, data, what, fetcher.limit)
        except SpindleError as error:
            missing[where] = f"cannot be read: {error.message}"
            continue
        others[where] = found
        waiting += _outside_addresses(found, data)
    return Documents(main, others, missing)


def parse(address: str, data: bytes, what: str = OPENAPI, limit: int = MAX_SIZE) -> Document:
    """Returns the document that a text of JSON or YAML is. `what` it is meant to be is for messages."""
    place = shown(address)
    if data[:1024].lstrip(b"\xef\xbb\xbf \t\r\n")[:200].lower().startswith((b"<!doctype html", b"<html")):
        raise ConfigurationError(
            f"{place} is an HTML page, not {what}",
            hint="give the address of the JSON or YAML; it may be behind a login: then download it",
        )
    try:
        root: Any = read_any(data, Bounds(size=limit))
    except TextError as error:
        at = f", line {error.line}" if error.line is not None else ""
        raise ConfigurationError(f"{place}{at}: {error.problem}", hint=error.hint) from None
    if not is_object(root):
        raise ConfigurationError(f"{place} is not {what}: it holds no object")
    return Document(address, root)


def _outside_addresses(document: Document, data: bytes) -> list[str]:
    """Returns the addresses that a document refers to. Most refer to none, which their text tells at once."""
    if not _OUTSIDE.search(data):
        return []
    found = (urldefrag(urljoin(document.address, reference))[0] for reference in references(document.root))
    return [where for where in dict.fromkeys(found) if where != document.address]


def file_address(path: Path) -> str:
    """Returns the address of a file."""
    return path.resolve().as_uri()
