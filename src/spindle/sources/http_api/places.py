"""The usual places of API descriptions, and the search for one there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urljoin

from spindle.documents.fetch import OPENAPI, Fetcher, parse
from spindle.documents.refs import Document
from spindle.errors import ConfigurationError, ConnectionFailedError, SpindleError
from spindle.threads import in_turn

PLACES = (
    "openapi.json",
    "openapi.yaml",
    "openapi.yml",
    "swagger.json",
    "swagger.yaml",
    "v3/api-docs",
    "v2/api-docs",
    "api-docs",
    "api/openapi.json",
    "swagger/v1/swagger.json",
    ".well-known/openapi.json",
    ".well-known/openapi.yaml",
    ".well-known/openapi",
    "utcp",
    ".well-known/utcp",
    ".well-known/utcp.json",
)


@dataclass(frozen=True, slots=True)
class FoundDocument:
    """A description. `data` is its text, and `fetcher` reads what it refers to."""

    kind: Literal["openapi", "utcp"]
    asked: str
    """The address that led to it, below the one that the user named."""
    document: Document
    data: bytes
    fetcher: Fetcher


def addresses(base: str) -> list[str]:
    """Below the base first, then below the root of its host."""
    root = urljoin(base, "/")
    folders = dict.fromkeys((f"{base.rstrip('/')}/", root))
    return [f"{folder}{place}" for folder in folders for place in PLACES]


async def look(base: str, new_fetcher: Callable[[], Fetcher], seconds: float) -> FoundDocument | list[str]:
    """The first description there is; or else of those places that did not just say "not here", why."""
    refusals: list[str] = []
    try:
        async with asyncio.timeout(seconds):
            for address in addresses(base):
                found = await _look_at(address, new_fetcher(), refusals)
                if found is not None:
                    return found
    except TimeoutError:
        raise ConnectionFailedError(
            f"looking for a description of {base} took longer than {seconds:g} s",
            hint="raise `connect_timeout`, or set `discover = false`",
        ) from None
    return refusals


async def _look_at(address: str, fetcher: Fetcher, refusals: list[str]) -> FoundDocument | None:
    try:
        data = await fetcher.fetch(address)
    except ConnectionFailedError as error:
        # Nobody is there, or he is gone: the other places would say the same.
        error.hint = "check `url`, and that the API runs"
        raise
    except SpindleError as error:
        if error.status not in (404, 405, 410):
            refusals.append(error.message)
        return None
    try:
        document = await in_turn(parse, fetcher.landed(address), data, OPENAPI, fetcher.limit)
    except ConfigurationError:
        # Many servers answer anything with a page of theirs.
        return None
    if "openapi" in document.root or "swagger" in document.root:
        return FoundDocument("openapi", address, document, data, fetcher)
    if "utcp_version" in document.root:
        return FoundDocument("utcp", address, document, data, fetcher)
    return None
