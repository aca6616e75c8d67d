"""Credentials as parts of a request: Basic, Bearer, API keys, and where each of them goes.

An API's description says: any of these (OR), each with all of those (AND). A source has one credential, as
its `auth` or a principal's own gives it: parts with a name and a place, or one value without a name, which
goes where the description says, and into the header `X-API-Key` if it does not say.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field, replace

from spindle.domain.identity import KEY_HEADER, Credential
from spindle.domain.json_schema import JsonObject

Pairs = list[tuple[str, str]]

NAME_IT = "give `auth` its `name` (and `in`)"
"""The way out where an API key went to the wrong place."""


def basic_header(username: str, password: str) -> str:
    """Returns the value of an `Authorization` header of the Basic scheme."""
    return f"Basic {base64.b64encode(f'{username}:{password}'.encode()).decode()}"


def basic(username: str, password: str) -> Credential:
    """Returns the credential of a user with a password."""
    return Credential(headers=(("Authorization", basic_header(username, password)),))


def bearer_header(token: str) -> str:
    """Returns the value of an `Authorization` header of the Bearer scheme."""
    return f"Bearer {token}"


def bearer(token: str) -> Credential:
    """Returns the credential of somebody who holds an access token."""
    return Credential(headers=(("Authorization", bearer_header(token)),), token=token)


def key(name: str, value: str, location: str) -> Credential:
    """Returns the credential that an API key is: in a header, the query or a cookie."""
    part = ((name, value),)
    if location == "query":
        return Credential(query=part)
    return Credential(cookies=part) if location == "cookie" else Credential(headers=part)


def cookie_header(cookies: Pairs | tuple[tuple[str, str], ...], present: str | None = None) -> str:
    """Returns the value of a `Cookie` header with these cookies, after those that are present."""
    return "; ".join([*([present] if present else []), *(f"{name}={value}" for name, value in cookies)])


@dataclass(slots=True)
class CredentialParts:
    """Parts of a request that prove who makes it."""

    headers: Pairs = field(default_factory=Pairs)
    query: Pairs = field(default_factory=Pairs)
    cookies: Pairs = field(default_factory=Pairs)

    @property
    def is_empty(self) -> bool:
        return not (self.headers or self.query or self.cookies)


def apply(
    security: list[list[JsonObject]] | None, credential: Credential, headers: JsonObject
) -> CredentialParts:
    """Returns what to show with a request. `headers` are sent anyway and may serve a scheme too."""
    if security is None:
        return _named(credential)
    alternatives = sorted(security, key=lambda wanted: not wanted)
    if not any(alternatives):
        return CredentialParts()
    present = {name.lower() for name in headers}
    best: CredentialParts | None = None
    for wanted in alternatives:
        shown = CredentialParts()
        missing = [scheme for scheme in wanted if not _satisfy(scheme, credential, present, shown)]
        if not missing:
            return shown
        if best is None and len(missing) < len(wanted):
            best = shown
    # Half of what is wanted, or what the user named himself: the server says what it thinks of it.
    return best or _named(credential)


def _satisfy(scheme: JsonObject, credential: Credential, present: set[str], shown: CredentialParts) -> bool:
    kind = scheme.get("type")
    if kind == "apiKey":
        return _satisfy_key(str(scheme.get("name")), str(scheme.get("in")), credential, present, shown)
    if kind == "mutualTLS":
        return True
    if "authorization" in present:
        return True
    wanted = str(scheme.get("scheme", "bearer")).lower() if kind == "http" else "bearer"
    for name, value in credential.headers:
        if name.lower() == "authorization" and _fits(value, wanted):
            shown.headers.append((name, value))
            return True
    bare = _bare(credential)
    if bare is None:
        return False
    if wanted == "basic":
        username, _, password = bare.partition(":")
        shown.headers.append(("Authorization", basic_header(username, password)))
    else:
        shown.headers.append(("Authorization", f"{wanted.capitalize()} {bare}"))
    return True


def _satisfy_key(
    name: str, place: str, credential: Credential, present: set[str], shown: CredentialParts
) -> bool:
    given = {"header": credential.headers, "query": credential.query, "cookie": credential.cookies}
    target = {"header": shown.headers, "query": shown.query, "cookie": shown.cookies}
    if place not in given:
        return False
    if place == "header" and name.lower() in present:
        return True
    for own, value in given[place]:
        if own == name or (place == "header" and own.lower() == name.lower()):
            target[place].append((name, value))
            return True
    bare = _bare(credential)
    if bare is None:
        return False
    target[place].append((name, bare))
    return True


def _fits(value: str, wanted: str) -> bool:
    scheme = value.partition(" ")[0].lower()
    return scheme == wanted or wanted not in ("basic", "bearer")


def is_nameless(credential: Credential) -> bool:
    """True if a credential has a value without a name, which goes where a description says."""
    return _bare(credential) is not None


def named_parts(credential: Credential) -> Credential:
    """Returns a credential of which every part has a name, where no description says one."""
    if not is_nameless(credential):
        return credential
    headers = tuple((name or KEY_HEADER, value) for name, value in credential.headers)
    return replace(credential, headers=headers)


def _bare(credential: Credential) -> str | None:
    """The value that was given without a name."""
    return next((value for name, value in credential.headers if not name), None)


def _named(credential: Credential) -> CredentialParts:
    named = named_parts(credential)
    return CredentialParts(list(named.headers), list(named.query), list(named.cookies))
