"""This server as an OAuth protected resource: what tells clients where tokens come from (RFC 9728, 6750)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from spindle.domain.json_schema import to_json
from spindle.errors import AuthError, PermissionDeniedError, SpindleError
from spindle.listening.headers import RequestHeaders, headers_of
from spindle.listening.response import Response
from spindle.serving.problems import of_error, problem, respond

if TYPE_CHECKING:
    from starlette.types import Scope

    from spindle.domain.serve import ServeConfig

METADATA = "/.well-known/oauth-protected-resource"
# Resources of their own, which clients name with their path.
_RESOURCES = frozenset({"/mcp"})


def metadata(config: ServeConfig, scope: Scope) -> Response:
    """The document at METADATA, or at METADATA with the path of a resource after it."""
    assert config.jwt is not None
    path: str = scope["path"].removeprefix(METADATA).rstrip("/")
    resource = path if path in _RESOURCES else ""
    body = {
        "resource": f"{base_url(config, scope)}{resource}",
        "authorization_servers": [config.jwt.issuer],
        "bearer_methods_supported": ["header"],
        "resource_name": "Spindle",
    } | ({"scopes_supported": list(config.jwt.required_scopes)} if config.jwt.required_scopes else {})
    return Response(to_json(body), media_type="application/json")


def metadata_url(config: ServeConfig, scope: Scope) -> str:
    """The URL of the metadata of the requested resource."""
    path: str = scope["path"].rstrip("/")
    return f"{base_url(config, scope)}{METADATA}{path if path in _RESOURCES else ''}"


def base_url(config: ServeConfig, scope: Scope) -> str:
    """The address by which the client reaches us; its name was checked before."""
    scheme = "https" if config.tls_certificate else "http"
    return config.url or f"{scheme}://{headers_of(scope).get(b'host')}"


def challenge(
    resource_metadata: str | None, error: str | None, why: str | None, scopes: Sequence[str]
) -> str:
    """The value of WWW-Authenticate."""
    parts = {"realm": "spindle"}
    if error is not None:
        parts["error"] = error
        parts["error_description"] = why or ""
    if scopes:
        parts["scope"] = " ".join(scopes)
    if resource_metadata is not None:
        parts["resource_metadata"] = resource_metadata
    return "Bearer " + ", ".join(f'{name}="{_plain(value)}"' for name, value in parts.items())


def _plain(text: str) -> str:
    """The text with `?` for every character that may not stand in a quoted header value."""
    return "".join(sign if " " <= sign <= "~" and sign not in '"\\' else "?" for sign in text)


def shown_token(headers: RequestHeaders) -> str | None:
    """The token, if one is shown, in the one way that is meant."""
    given = headers.all(b"authorization")
    scheme, _, shown = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    return shown.strip() or None if scheme.lower() == "bearer" else None


def not_identified(config: ServeConfig, scope: Scope, error: SpindleError, *, has_issuer: bool) -> Response:
    """The answer to a request of somebody who is not known, or may not come in."""
    if not isinstance(error, (AuthError, PermissionDeniedError)):
        return respond({**of_error(error), "status": 503})
    url = metadata_url(config, scope) if has_issuer else None
    scopes = config.jwt.required_scopes if config.jwt is not None else ()
    lacks_scope = isinstance(error, PermissionDeniedError)
    shown = shown_token(RequestHeaders(scope))
    code = "insufficient_scope" if lacks_scope else "invalid_token" if shown else None
    said = challenge(url, code, error.message if code else None, scopes)
    status, category = (403, "permission") if lacks_scope else (401, "auth")
    return respond(problem(status, category, error.message, error.hint), {"WWW-Authenticate": said})
