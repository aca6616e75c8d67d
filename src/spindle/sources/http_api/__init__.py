"""HTTP APIs by nothing but their address: a description is looked for, or one tool makes any request."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from spindle.ports.source import Source

if TYPE_CHECKING:
    from spindle.domain.identity import Credential
    from spindle.sources.http_api.config import HttpConfig
    from spindle.sources.http_api.session import HttpApiSession


class HttpSource(Source["HttpConfig"]):
    """A source for an HTTP API that is known only by its address."""

    @staticmethod
    def config_model() -> type[HttpConfig]:
        from spindle.sources.http_api.config import HttpConfig

        return HttpConfig

    def open(self, credential: Credential, on_change: Callable[[], None]) -> HttpApiSession:
        from spindle.sources.http_api.session import HttpApiSession

        return HttpApiSession(self.name, self.config, self.root, credential, self.note, on_change)
