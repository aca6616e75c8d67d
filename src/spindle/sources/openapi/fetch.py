"""Getting documents: files and http(s) only, within size, and not into private networks from outside."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

import httpx2

from spindle.documents.refs import shown
from spindle.errors import ConfigurationError, ConnectionFailedError, SpindleError, from_status
from spindle.http.addresses import same_origin
from spindle.sources.reach import InsideError, Reach

MAX_REDIRECTS = 5
_ACCEPT = {"accept": "application/json, application/yaml, */*;q=0.5"}


class Fetcher:
    """Reads the documents of one source. `limit` is for all of them together. `headers` go to the
    origin of the first of them only."""

    def __init__(
        self,
        reach: Reach,
        limit: int,
        *,
        allow_private: bool,
        timeout: float,
        headers: Mapping[str, str] | None = None,
        setting: str = "`document`",
    ) -> None:
        self._reach = reach
        self._left = limit
        self.limit = limit
        self._allow_private = allow_private
        self._timeout = httpx2.Timeout(timeout)
        self._setting = setting
        self._headers = dict(headers or {})
        self._origin: httpx2.URL | None = None
        self._landed: dict[str, str] = {}
        self.remote: bool | None = None
        """Whether the first document came from elsewhere than this machine and its networks."""

    async def fetch(self, address: str) -> bytes:
        if address.startswith("file://"):
            if self.remote:
                raise ConfigurationError(f"{address}: a document from elsewhere may not name a file here")
            self.remote = False
            data = self._read(address)
        else:
            data = await self._download(address)
        self._left -= len(data)
        return data

    def landed(self, address: str) -> str:
        """Where the document at an address was found, redirects followed."""
        return self._landed.get(address, address)

    def _read(self, address: str) -> bytes:
        path = Path(unquote(urlsplit(address).path))
        try:
            with path.open("rb") as file:
                data = file.read(self._left + 1)
        except FileNotFoundError:
            raise ConfigurationError(f"there is no file {path}", hint=f"check {self._setting}") from None
        except OSError as error:
            raise ConfigurationError(f"cannot read {path}: {error.strerror or error}") from None
        if len(data) > self._left:
            raise self._too_large(address)
        return data

    async def _download(self, address: str) -> bytes:
        url = httpx2.URL(address)
        self._origin = self._origin or url
        try:
            for _ in range(MAX_REDIRECTS + 1):
                if url.scheme not in ("http", "https") or not url.host:
                    raise ConfigurationError(f"{address} leads to {url}, which is not http or https")
                public_only = bool(self.remote) and not self._allow_private
                own = self._headers if same_origin(str(url), str(self._origin)) else {}
                response = await self._reach.send(
                    "GET", url, public_only=public_only, headers=_ACCEPT | own, timeout=self._timeout
                )
                try:
                    if self.remote is None:
                        self.remote = not await self._reach.is_from_inside(response)
                    if response.next_request is None:
                        self._landed[address] = str(url)
                        return await self._body(address, response)
                    url = response.next_request.url
                finally:
                    await response.aclose()
        except InsideError as error:
            raise ConfigurationError(
                f"{address} leads to {error.host}, which is on this machine or a private network",
                hint="set `allow_private = true` if that is meant",
            ) from None
        except httpx2.HTTPError as error:
            raise ConnectionFailedError(
                f"cannot get {address}: {str(error) or type(error).__name__}",
                hint=f"check {self._setting} and that its server runs",
            ) from error
        raise ConfigurationError(f"{address} was redirected more than {MAX_REDIRECTS} times")

    async def _body(self, address: str, response: httpx2.Response) -> bytes:
        if response.status_code >= 400:
            raise self._refused(address, response.status_code)
        announced = response.headers.get("content-length", "")
        if announced.isdecimal() and int(announced) > self._left:
            raise self._too_large(address)
        data = bytearray()
        async for chunk in response.aiter_bytes():
            data += chunk
            if len(data) > self._left:
                raise self._too_large(address)
        return bytes(data)

    def _too_large(self, address: str) -> SpindleError:
        return ConfigurationError(
            f"{shown(address)} is too large: over {self.limit} bytes with all it refers to",
            hint="raise `max_document_size` if that is meant",
        )

    def _refused(self, address: str, status: int) -> SpindleError:
        error = from_status(status, f"{address} answered with HTTP status {status}")
        if status in (401, 403):
            error.hint = f"download the document with your login, and give the file as {self._setting}"
        elif status in (404, 410):
            error.hint = f"check {self._setting}: there is nothing at this address"
        return error
