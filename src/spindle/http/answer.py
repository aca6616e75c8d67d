"""An answer as it comes: its status and headers, and the bounded reader of its body."""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Coroutine, Sequence
from typing import TYPE_CHECKING, Protocol

from spindle.http.failures import LostError, TooLargeError
from spindle.http.proxies import is_proxied
from spindle.http.public import answered_inside
from spindle.http.unpack import unpacked

if TYPE_CHECKING:
    from spindle.http.request import Prepared
    from spindle.http.urls import Url

SILENT = "nothing came from it in time"
_CHARSET = re.compile(r";\s*charset\s*=\s*(?:\"([^\"]*)\"|([^\s;\"]+))", re.IGNORECASE)


class Carrier(Protocol):
    """The connection that an answer comes on, as the answer sees it."""

    @property
    def peer(self) -> str | None: ...
    def go_on(self) -> None: ...
    def drop(self) -> None: ...


class HttpAnswer:
    """An answer. Its body is still to come, and can be read once."""

    # Defaults of the class, as one is made for each request.
    sent_from_outside = False
    """True if a server outside redirected us to the one that answers."""
    status = 0
    """The HTTP status; 0 until the head has come."""
    cookies: Sequence[str] = ()
    """The cookies that it sets, each as it is written."""
    is_complete = False
    """True if all of the body has come."""
    _failure: str | None = None
    _waiter: asyncio.Future[None] | None = None

    def __init__(
        self, request: Prepared, url: Url, connection: Carrier, timeout: float | None = None
    ) -> None:
        self.request = request
        """The request that it answers; after redirects not the first one."""
        self.headers: dict[str, str] = {}
        """By their names in small letters. Those that came twice are joined."""
        self._url = url
        self._connection = connection
        self._peer = connection.peer
        self._timeout = timeout
        self._pieces: list[bytes] = []

    @property
    def url(self) -> str:
        """The address that it came from."""
        return str(self._url)

    @property
    def plain_url(self) -> str:
        """The same without what may be secret in it."""
        return str(self._url.plain())

    @property
    def host(self) -> str:
        return self._url.host

    @property
    def media_type(self) -> str:
        """The type of the body, without parameters; empty where the server does not say."""
        return _read_type(self.headers.get("content-type", ""))[0]

    @property
    def charset(self) -> str | None:
        """The encoding that the server names."""
        return _read_type(self.headers.get("content-type", ""))[1]

    async def is_from_inside(self) -> bool:
        """True if this machine or a network of its own answered."""
        return await answered_inside(self.url, self._peer)

    async def is_from_outside(self) -> bool:
        """True if it is known that somebody else than this machine and its networks answered."""
        return not await self.is_from_inside() and (is_proxied() or self._peer is not None)

    async def chunks(self, limit: int | None = None, size: int | None = None) -> AsyncGenerator[bytes]:
        """The body as it comes, unpacked, in pieces of `size` where that is given."""
        self._check_announced(limit)
        body: AsyncIterable[bytes] = self._received()
        if encoding := self.headers.get("content-encoding"):
            body = unpacked(body, encoding)
        if limit is not None:
            body = bounded(body, limit, self.status)
        async for chunk in body if size is None else _pieces(body, size):
            yield chunk

    async def read(self, limit: int) -> bytes:
        """The whole body, if it is not larger than `limit` bytes."""
        if "content-encoding" in self.headers:
            return b"".join([chunk async for chunk in self.chunks(limit)])
        self._check_announced(limit)
        found, size = list[bytes](), 0
        while True:
            for piece in self._take():
                size += len(piece)
                found.append(piece)
            if size > limit:
                raise TooLargeError(limit, self.status)
            if self.is_complete:
                return found[0] if len(found) == 1 else b"".join(found)
            await self._more()

    def has_come(self) -> bool:
        """True if there is something of the body, or all there will be."""
        return bool(self._pieces) or self.is_complete or self._failure is not None

    def come(self) -> bytes:
        """All of the body that has come and was not read yet, as it was sent. It can still be read."""
        if len(self._pieces) > 1:
            self._pieces = [b"".join(self._pieces)]
        return self._pieces[0] if self._pieces else b""

    async def _received(self) -> AsyncIterator[bytes]:
        while True:
            for piece in self._take():
                yield piece
            if self.is_complete and not self._pieces:
                return
            await self._more()

    def _take(self) -> list[bytes]:
        taken, self._pieces = self._pieces, []
        if taken and not self.is_complete:
            self._connection.go_on()
        return taken

    async def _more(self) -> None:
        """Waits until more of the body is here, or all of it. Raises LostError."""
        if self._pieces or self.is_complete:
            return
        if self._failure is None:
            try:
                await self.wait()
            except TimeoutError:
                raise LostError(SILENT, is_silence=True) from None
        if self._failure is not None and not self._pieces:
            raise LostError(self._failure)

    def _check_announced(self, limit: int | None) -> None:
        announced = self.headers.get("content-length", "")
        # What a HEAD announces is not its own body.
        is_known = announced.isdecimal() and self.request.method != "HEAD"
        if limit is not None and is_known and int(announced) > limit:
            raise TooLargeError(limit, self.status)

    def leave(self) -> None:
        """Lets the rest of the body come, though nobody reads it: then the connection is left to others."""
        self._take()

    def release(self) -> None:
        """Leaves the connection to others, or ends it where more of the body would come."""
        if not self.is_complete:
            self._connection.drop()

    async def aclose(self) -> None:
        """See release."""
        self.release()

    # --- as its connection sees it

    @property
    def failure(self) -> str | None:
        """The reason for which no more of it comes, though it is not complete."""
        return self._failure

    def begin(self, status: int, headers: dict[str, str], body: bytes) -> None:
        """Takes the head, and as much of the body as came with it."""
        self.status, self.headers, self._pieces = status, headers, [body] if body else []

    def add(self, piece: bytes) -> None:
        self._pieces.append(piece)

    def fail(self, reason: str) -> None:
        self._failure = reason
        self.wake()

    def wake(self) -> None:
        """Tells who waits that something has come."""
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def wait(self) -> Coroutine[None, None, None]:
        """Waits until something has come. Raises TimeoutError."""
        return self.in_time(self.waiter())

    async def in_time(self, step: asyncio.Future[None]) -> None:
        """Waits for a step of the exchange. Raises TimeoutError."""
        if self._timeout is None:
            await step
        else:
            async with asyncio.timeout(self._timeout):
                await step

    def waiter(self) -> asyncio.Future[None]:
        """Done when something has come, in whatever time. The one before it is not needed any more."""
        self._waiter = waiter = asyncio.get_running_loop().create_future()
        return waiter


@functools.lru_cache(256)
def _read_type(header: str) -> tuple[str, str | None]:
    """The media type in a header, and the encoding."""
    found = _CHARSET.search(header)
    return header.partition(";")[0].strip().lower(), (found[1] or found[2]) if found else None


async def bounded(
    chunks: AsyncIterable[bytes], limit: int | None, status: int = 0, *, ends: re.Pattern[bytes] | None = None
) -> AsyncIterator[bytes]:
    """Pieces of a body until they are more than `limit` bytes, which raises TooLargeError. Where `ends` says
    what parts end with, the limit is for each part: a stream of events may go on for days."""
    size, before = 0, b""
    async for chunk in chunks:
        size += len(chunk)
        if ends is not None:
            recent = before + chunk
            found = [match.end() for match in ends.finditer(recent)]
            size = len(recent) - found[-1] if found else size
            before = recent[-3:]
        if limit is not None and size > limit:
            raise TooLargeError(limit, status)
        yield chunk


async def _pieces(chunks: AsyncIterable[bytes], size: int) -> AsyncIterator[bytes]:
    kept = bytearray()
    async for chunk in chunks:
        kept += chunk
        while len(kept) >= size:
            yield bytes(kept[:size])
            del kept[:size]
    if kept:
        yield bytes(kept)
