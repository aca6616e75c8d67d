"""An answer over HTTP that is there as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

_WITHOUT_BODY = (204, 304)


class Response:
    """Answers one request, as an ASGI application. Made like Starlette's, whose import takes more memory
    than all of `serving/`: a server that only refuses and tells does without it."""

    def __init__(
        self,
        content: bytes | str = b"",
        status_code: int = 200,
        headers: Mapping[str, str] | None = None,
        media_type: str | None = None,
    ) -> None:
        self.body = content.encode() if isinstance(content, str) else content
        self.status_code = status_code
        self.headers = {name.lower(): value for name, value in (headers or {}).items()}
        """By names in lower case, without the length of the body."""
        if media_type is not None:
            self.headers.setdefault("content-type", media_type)

    @property
    def raw_headers(self) -> list[tuple[bytes, bytes]]:
        """The headers as ASGI has them, without the length of the body."""
        return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in self.headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = self.raw_headers
        if self.status_code not in _WITHOUT_BODY:
            headers.append((b"content-length", b"%d" % len(self.body)))
        await send({"type": "http.response.start", "status": self.status_code, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})
