"""Bodies that servers send packed, unpacked piece by piece: a small one may unpack to one of any size."""

from __future__ import annotations

import zlib
from collections.abc import AsyncGenerator, AsyncIterable

from spindle.http.failures import UnpackError

ACCEPTED = "gzip, deflate"
"""The encodings that requests ask for."""
MOST = 5
"""Encodings of one body, each inside of the other."""

_PIECE = 256 * 1024
_GZIP = zlib.MAX_WBITS | 16


def unpacked(chunks: AsyncIterable[bytes], encoding: str) -> AsyncIterable[bytes]:
    """The pieces of a body without its encodings. One that nobody asked for is left as it is."""
    names = [name.strip().lower() for name in encoding.split(",")]
    if len(names) > MOST:
        raise UnpackError(f"packed more than {MOST} times")
    for name in reversed(names):
        if name in ("gzip", "x-gzip"):
            chunks = _unpack(chunks, _GZIP)
        elif name == "deflate":
            chunks = _unpack(chunks, zlib.MAX_WBITS)
    return chunks


async def _unpack(chunks: AsyncIterable[bytes], window: int) -> AsyncGenerator[bytes]:
    unpacker, is_first = zlib.decompressobj(window), True
    async for chunk in chunks:
        while chunk:
            try:
                piece = unpacker.decompress(chunk, _PIECE)
            except zlib.error as error:
                if is_first and window == zlib.MAX_WBITS:
                    # Some servers leave out what zlib begins with.
                    unpacker, is_first = zlib.decompressobj(-zlib.MAX_WBITS), False
                    continue
                raise UnpackError(str(error)) from error
            is_first = False
            chunk = unpacker.unconsumed_tail
            if piece:
                yield piece
            if unpacker.eof:
                # What follows is padding, or another file of the same kind.
                rest = (unpacker.unused_data + chunk).lstrip(b"\0")
                if not rest or window != _GZIP:
                    break
                unpacker, chunk = zlib.decompressobj(window), rest
