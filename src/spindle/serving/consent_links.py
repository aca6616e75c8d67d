"""Links at which a person gives a consent from the console, and comes back to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from spindle.errors import ConfigurationError, NotFoundError
from spindle.serving.operating import CALLBACK
from spindle.serving.resource import base_url

if TYPE_CHECKING:
    from starlette.types import Scope

    from spindle.app import Spindle
    from spindle.domain.identity import Principal
    from spindle.domain.json_schema import JsonObject
    from spindle.serving.access import ServingAccess

_LOCAL = ("localhost", "127.0.0.1", "::1")


async def consent_link(
    app: Spindle, access: ServingAccess, scope: Scope, source: str, principal: Principal, pause: str | None
) -> JsonObject:
    """Returns what a page needs to send its browser to the provider. No run waits for it: whoever goes away
    leaves nothing behind. `pause` is one that waits for this consent, and may want more than others."""
    scopes = await _scopes(app, pause, principal, source) if pause is not None else ()
    if pause is None and not await app.catalog.consents.lacks(source, principal):
        return {"name": source, "connected": True}
    asked = await app.auth.begin(
        source, principal, scopes=scopes, redirect_uri=_comes_back_to(app, access, scope)
    )
    details = {"url": asked.url, "provider": asked.provider, "scopes": list(asked.scopes)}
    if asked.code is not None:
        details["code"] = asked.code
    return {"name": source, "connected": False, "consents": [details]}


async def _scopes(app: Spindle, token: str, principal: Principal, source: str) -> Sequence[str]:
    found = next((item for item in await app.pauses(principal=principal) if item.token == token), None)
    if found is None or found.kind != "consent" or found.source != source:
        raise NotFoundError("nothing of yours waits for this consent any more", source=source)
    return [str(scope) for scope in found.details.get("scopes") or ()]


def _comes_back_to(app: Spindle, access: ServingAccess, scope: Scope) -> str | None:
    """The address of this server to which providers send its users back. None: the settings name another."""
    own = f"{base_url(access.config, scope)}{CALLBACK}"
    if (written := app.settings.auth.redirect_uri) is not None:
        return written if written == own else None
    parts = urlsplit(own)
    if parts.scheme != "https" and parts.hostname not in _LOCAL:
        raise ConfigurationError(
            f"providers send nobody back to {parts.scheme}://{parts.netloc}: it is not https",
            hint="serve it with TLS, or set serve.url to the https address of the proxy before it",
        )
    return own
