"""Where an operation wants its credential, and putting the source's credential there.

A document says: any of these (OR), each with all of those (AND). A source has one credential, as its
`auth` or a principal's own gives it: parts with a name and a place, or one value without a name, which
then goes where the document says.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any

from spindle.domain.identity import Credential
from spindle.domain.json_schema import JsonObject, is_array, is_object
from spindle.errors import ConfigurationError

Pairs = list[tuple[str, str]]


@dataclass(slots=True)
class CredentialParts:
    """Parts of a request that prove who makes it."""

    headers: Pairs = field(default_factory=Pairs)
    query: Pairs = field(default_factory=Pairs)
    cookies: Pairs = field(default_factory=Pairs)


def requirements(security: Any, schemes: JsonObject, problems: list[str]) -> list[list[JsonObject]] | None:
    """The alternatives, each a list of schemes; None when the document does not say."""
    if not is_array(security):
        return None
    found: list[list[JsonObject]] = []
    for alternative in security:
        if not is_object(alternative):
            continue
        wanted: list[JsonObject] = []
        for name in alternative:
            scheme = schemes.get(name)
            if is_object(scheme):
                wanted.append(_plain(scheme))
            else:
                problems.append(f"the security scheme {name!r} is not defined")
        found.append(wanted)
    return found


def _plain(scheme: JsonObject) -> JsonObject:
    return {key: scheme[key] for key in ("type", "in", "name", "scheme") if key in scheme}


def apply(
    security: list[list[JsonObject]] | None, credential: Credential, headers: JsonObject
) -> CredentialParts:
    """What to show with a request. `headers` are sent anyway and may serve a scheme too."""
    if security is None:
        return _as_given(credential)
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
        pair = bare if ":" in bare else f"{bare}:"
        bare = base64.b64encode(pair.encode()).decode()
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


def _bare(credential: Credential) -> str | None:
    """The value that was given without a name."""
    return next((value for name, value in credential.headers if not name), None)


def _named(credential: Credential) -> CredentialParts:
    headers = [(name, value) for name, value in credential.headers if name]
    return CredentialParts(headers, list(credential.query), list(credential.cookies))


def _as_given(credential: Credential) -> CredentialParts:
    if _bare(credential) is not None:
        raise ConfigurationError(
            "the document does not say where the API key of this operation goes",
            hint="give `auth` its `name` (and `in`)",
            sent=False,
        )
    return _named(credential)
