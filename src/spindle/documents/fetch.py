"""Documents from files and URLs, each with everything that it refers to."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from spindle.documents.bounds import MAX_SIZE, Bounds
from spindle.documents.places import LargeTextError, TextError
from spindle.documents.refs import Document, Documents, references, shown
from spindle.documents.text import read_any
from spindle.domain.json_schema import is_object
from spindle.errors import ConfigurationError, ConnectionFailedError, ServerError, SpindleError, from_status
from spindle.http.addresses import same_origin
from spindle.http.client import HttpClient
from spindle.http.exchange import RedirectPolicy, exchange
from spindle.http.failures import HttpFailure, InsideError, RedirectError, TooLargeError, UnpackError
from spindle.http.request import Prepared
from spindle.threads import in_turn

MAX_DOCUMENTS: Final = 100
"""Other documents that one may refer to, directly or not: each of them is fetched."""

OPENAPI: Final = "an OpenAPI document"
RAISE_LIMIT: Final = "raise `max_document_size` if that is meant"
ACCEPT: Final = "application/json, application/yaml, */*;q=0.5"
_OUTSIDE = re.compile(rb"\$ref[\"']?\s*:\s*[\"']?[^#\"'\s]")


class Fetcher:
    """Reads the documents of one source: files and http(s) only, and neither files nor private networks for
    one from elsewhere. `limit` is for all of them together; `headers` go to the origin of the first only."""

    def __init__(
        self,
        http: HttpClient,
        limit: int,
        *,
        allow_private: bool,
        timeout: float,
        headers: Mapping[str, str] | None = None,
        setting: str = "`document`",
    ) -> None:
        self._http = http
        self._left = limit
        self.limit = limit
        self._allow_private = allow_private
        self._timeout = timeout
        self._setting = setting
        self._headers = dict(headers or {})
        self._origin: str | None = None
        self._landed: dict[str, str] = {}
        self.remote: bool | None = None
        """True if the first document came from elsewhere than this machine and its networks."""

    async def fetch(self, address: str) -> bytes:
        """Returns the bytes at an address."""
        if address.startswith("file://"):
            if self.remote:
                raise ConfigurationError(f"{address}: a document from elsewhere may not name a file here")
            self.remote = False
            data = await asyncio.to_thread(self._read, address)
        else:
            data = await self._download(address)
        self._left -= len(data)
        return data

    def landed(self, address: str) -> str:
        """Returns where the document at an address was found, redirects followed."""
        return self._landed.get(address, address)

    def _read(self, address: str) -> bytes:
        data = read_file(Path(unquote(urlsplit(address).path)), self._left, self._setting)
        if len(data) > self._left:
            raise self._too_large(address)
        return data

    async def _download(self, address: str) -> bytes:
        self._origin = self._origin or address
        own = self._headers if same_origin(address, self._origin) else {}
        policy = RedirectPolicy(may_lead_inside=self._allow_private)
        public_only = bool(self.remote) and not self._allow_private
        request = Prepared("GET", address, {"accept": ACCEPT} | own)
        try:
            async with exchange(
                self._http, request, policy, public_only=public_only, timeout=self._timeout
            ) as answer:
                if self.remote is None:
                    self.remote = answer.sent_from_outside or not await answer.is_from_inside()
                self._landed[address] = answer.url
                if answer.status >= 300:
                    raise self._refused(address, answer.status)
                return await answer.read(self._left)
        except TooLargeError:
            raise self._too_large(address) from None
        except InsideError as error:
            raise ConfigurationError(
                f"{address} leads to {error.host}, which is on this machine or a private network",
                hint="set `allow_private = true` if that is meant",
            ) from None
        except (RedirectError, UnpackError) as error:
            raise ServerError(f"{address} {error}") from None
        except HttpFailure as error:
            raise ConnectionFailedError(
                f"cannot get {address}: {error}", hint=f"check {self._setting} and that its server runs"
            ) from error

    def _too_large(self, address: str) -> SpindleError:
        return ConfigurationError(
            f"{shown(address)} is too large: over {self.limit} bytes with all it refers to",
            hint=RAISE_LIMIT,
        )

    def _refused(self, address: str, status: int) -> SpindleError:
        error = from_status(status, f"{address} answered with HTTP status {status}")
        if status in (401, 403):
            error.hint = f"download the document with your login, and give the file as {self._setting}"
        elif status in (404, 410):
            error.hint = f"check {self._setting}: there is nothing at this address"
        return error


async def load(address: str, fetcher: Fetcher, what: str = OPENAPI) -> Documents:
    """Returns the document at an address (a URL, or a file's as `file://…`) with everything it refers to."""
    data = await fetcher.fetch(address)
    where = fetcher.landed(address)
    try:
        main = await in_turn(parse, where, data, what, fetcher.limit)
    except ConfigurationError as error:
        if where == address:
            raise
        raise ConfigurationError(f"{address} redirects: {error.message}", hint=error.hint) from None
    return await complete(main, data, fetcher, what)


async def complete(main: Document, data: bytes, fetcher: Fetcher, what: str = OPENAPI) -> Documents:
    """Returns a document with everything it refers to. `data` is its text."""
    others: dict[str, Document] = {}
    missing: dict[str, str] = {}
    waiting = await in_turn(_outside_addresses, main, data)
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
            found = await in_turn(parse, where, data, what, fetcher.limit)
        except SpindleError as error:
            way_out = f" ({error.hint})" if error.hint else ""
            missing[where] = f"cannot be read: {error.message}{way_out}"
            continue
        others[where] = found
        waiting += await in_turn(_outside_addresses, found, data)
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
        root: Any = read_any(data, Bounds.of_size(limit))
    except TextError as error:
        at = f", line {error.line}" if error.line is not None else ""
        hint = RAISE_LIMIT if isinstance(error, LargeTextError) else error.hint
        raise ConfigurationError(f"{place}{at}: {error.problem}", hint=hint) from None
    if not is_object(root):
        raise ConfigurationError(f"{place} is not {what}: it holds no object")
    return Document(address, root)


def _outside_addresses(document: Document, data: bytes) -> list[str]:
    """Returns the addresses that a document refers to. Most refer to none, which their text tells at once."""
    if not _OUTSIDE.search(data):
        return []
    found = (urldefrag(urljoin(document.address, reference))[0] for reference in references(document.root))
    return [where for where in dict.fromkeys(found) if where != document.address]


def read_file(path: Path, limit: int, setting: str) -> bytes:
    """Returns the bytes of a file, at most one more than the limit. `setting` names it, for hints."""
    try:
        with path.open("rb") as file:
            return file.read(limit + 1)
    except FileNotFoundError:
        raise ConfigurationError(f"there is no file {path}", hint=f"check {setting}") from None
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror or error}") from None


def file_address(path: Path) -> str:
    """Returns the address of a file."""
    return path.resolve().as_uri()
