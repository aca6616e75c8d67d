"""What is shown to a source on behalf of a principal."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from spindle.domain.identity import NO_CREDENTIAL, Credential, Principal

if TYPE_CHECKING:
    from spindle.domain.source import SourceConfig

CredentialProvider = Callable[[str, Principal], Awaitable[Credential | None]]
"""Asked with (source, principal); None leaves the source's own `auth` in force."""


def configured(config: SourceConfig) -> Credential:
    """The credential that the source's own settings give, the same for everybody."""
    from spindle.domain.source import ApiKeyAuth, BasicAuth, BearerAuth

    match config.auth:
        case None:
            return NO_CREDENTIAL
        case BearerAuth(token=token):
            return bearer(token)
        case BasicAuth(username=username, password=password):
            pair = b64encode(f"{username}:{password}".encode()).decode()
            return Credential(headers=(("Authorization", f"Basic {pair}"),))
        case ApiKeyAuth(name=name, value=value, location=location):
            part = ((name, value),)
            if location == "query":
                return Credential(query=part)
            return Credential(cookies=part) if location == "cookie" else Credential(headers=part)


def bearer(token: str) -> Credential:
    return Credential(headers=(("Authorization", f"Bearer {token}"),))


class Credentials:
    """Chooses the credential for (source, principal): the principal's own, else the configured one."""

    def __init__(self, provider: CredentialProvider | None = None) -> None:
        self._provider = provider

    async def for_call(self, source: str, config: SourceConfig, principal: Principal) -> Credential:
        if self._provider is not None:
            own = await self._provider(source, principal)
            if own is not None:
                return own
        return configured(config)
