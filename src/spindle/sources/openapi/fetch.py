"""Getting documents: files and http(s) only, within size, and not into private networks from outside."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from spindle.documents.refs import shown
from spindle.errors import ConfigurationError, ConnectionFailedError, ServerError, SpindleError, from_status
from spindle.http.addresses import same_origin
from spindle.http.client import HttpClient
from spindle.http.exchange import RedirectPolicy, exchange
from spindle.http.failures import HttpFailure, InsideError, RedirectError, TooLargeError, UnpackError
from spindle.http.request import Prepared

_ACCEPT = {"accept": "application/json, application/yaml, */*;q=0.5"}


class Fetcher:
    """Reads the documents of one source. `limit` is for all of them together. `headers` go to the
    origin of the first of them only."""

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
        """Returns where the document at an address was found, redirects followed."""
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
        self._origin = self._origin or address
        own = self._headers if same_origin(address, self._origin) else {}
        policy = RedirectPolicy(may_lead_inside=self._allow_private)
        public_only = bool(self.remote) and not self._allow_private
        request = Prepared("GET", address, _ACCEPT | own)
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
            hint="raise `max_document_size` if that is meant",
        )

    def _refused(self, address: str, status: int) -> SpindleError:
        error = from_status(status, f"{address} answered with HTTP status {status}")
        if status in (401, 403):
            error.hint = f"download the document with your login, and give the file as {self._setting}"
        elif status in (404, 410):
            error.hint = f"check {self._setting}: there is nothing at this address"
        return error
