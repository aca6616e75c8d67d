"""Sources as entries of a registry: only those that others can use as they are, and nothing of ours.

No value of a variable or a header leaves the workspace, no argument and no path: a program that needs one
is used through the workspace's own server instead.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from spindle.domain.identity import KEY_HEADER
from spindle.domain.json_schema import JsonObject, canonical, is_array, is_object
from spindle.http.addresses import is_written_inside
from spindle.registry import names
from spindle.registry.entry import META

SCHEMA: Final = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
MAX_DESCRIPTION: Final = 100
_SECRET = re.compile(r"token|key|secret|passw|auth|credential", re.IGNORECASE)
_HARMLESS: Final = {
    "npx": ({"-y", "--yes"}, "npm", "@"),
    "uvx": (set[str](), "pypi", "@"),
    "dnx": ({"-y", "--yes"}, "nuget", "@"),
}
_CONTAINER_FLAGS: Final = frozenset({"-i", "--interactive", "--rm", "--init"})


def namespace(host: str) -> str:
    """Returns the namespace of what a host publishes: its name, the last part first."""
    name = host.lower().rstrip(".")
    if not re.fullmatch(r"[a-z0-9.-]+", name) or is_written_inside(name) or "." not in name.strip("."):
        return "local"
    return ".".join(reversed(name.split(".")))


def answer_entry(server: JsonObject, published_at: str) -> JsonObject:
    """Returns an entry in the form of a registry's answer."""
    meta = {"status": "active", "publishedAt": published_at, "updatedAt": published_at, "isLatest": True}
    return {"server": server, "_meta": {META: meta}}


def workspace_entry(space: str, url: str, version: str, *, wants_token: bool) -> JsonObject:
    """Returns the entry of the workspace's own MCP server."""
    remote: JsonObject = {"type": "streamable-http", "url": url}
    if wants_token:
        remote["headers"] = [_authorization("The token that this server wants")]
    return {
        "$schema": SCHEMA,
        "name": f"{space}/spindle",
        "title": "Spindle",
        "description": "All tools of this workspace as one MCP server.",
        "version": version,
        "remotes": [remote],
    }


def source_entry(space: str, source: str, table: Mapping[str, Any]) -> JsonObject | None:
    """Returns the entry of a source; None for one that others could not use, or that is private."""
    if table.get("kind", "mcp") != "mcp":
        return None
    remote, package = _remote(table), _package(table)
    if remote is None and package is None:
        return None
    about = " ".join(str(table.get("description") or f"The MCP server {source}.").split())
    server: JsonObject = {
        "$schema": SCHEMA,
        "name": f"{space}/{source}",
        "description": names.shown(about, MAX_DESCRIPTION),
    }
    offer: JsonObject = {"remotes": [remote]} if remote is not None else {"packages": [package]}
    mark = hashlib.sha256(canonical(offer)).hexdigest()[:8]
    own = package.get("version") if package is not None else None
    return {**server, "version": own or f"0.0.0-{mark}", **offer}


def _remote(table: Mapping[str, Any]) -> JsonObject | None:
    url = table.get("url")
    if not isinstance(url, str) or "${" in url:
        return None
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return None
    # A query or a name in a URL is often a key; an address inside is of no use to others.
    if parts.scheme != "https" or parts.query or "@" in parts.netloc or is_written_inside(host):
        return None
    found = [_input(name) for name in _keys(table.get("headers"))]
    auth = table.get("auth")
    if is_object(auth):
        kind = auth.get("type")
        if kind in ("bearer", "basic"):
            found.append(_authorization(f"A credential of the scheme {kind}"))
        elif kind == "api_key" and auth.get("in", "header") == "header":
            found.append(_input(str(auth.get("name") or KEY_HEADER)))
        elif kind != "oauth":
            return None
    remote: JsonObject = {
        "type": "sse" if table.get("transport") == "sse" else "streamable-http",
        "url": url.partition("#")[0],
    }
    return remote | ({"headers": found} if found else {})


def _package(table: Mapping[str, Any]) -> JsonObject | None:
    written = table.get("command")
    words: Sequence[Any] = written if is_array(written) else ()
    if not words or table.get("args") or not all(isinstance(word, str) for word in words):
        return None
    program, rest = words[0], list(words[1:])
    found: JsonObject | None = None
    if program in _HARMLESS:
        flags, kind, sign = _HARMLESS[program]
        plain = [word for word in rest if word not in flags]
        found = _pinned(kind, plain[0], sign) if len(plain) == 1 else None
    elif program in ("docker", "podman") and rest[:1] == ["run"]:
        found = _image(rest[1:])
    if found is None:
        return None
    variables = [_input(name) for name in _keys(table.get("env"))]
    return found | ({"environmentVariables": variables} if variables else {})


def _pinned(kind: str, word: str, sign: str) -> JsonObject | None:
    at = word.rfind(sign)
    identifier, version = (word[:at], word[at + 1 :]) if at > 0 else (word, "")
    if kind == "pypi" and "==" in word:
        identifier, _, version = word.partition("==")
    if not names.is_identifier(kind, identifier) or not names.is_version(version):
        return None
    return {
        "registryType": kind,
        "identifier": identifier,
        "version": version,
        "transport": {"type": "stdio"},
    }


def _image(words: Sequence[str]) -> JsonObject | None:
    left = list(words)
    while left and left[0].startswith("-"):
        flag = left.pop(0)
        if flag in ("-e", "--env") and left and names.is_variable(left[0]):
            left.pop(0)
        elif flag not in _CONTAINER_FLAGS:
            return None
    if len(left) != 1 or not names.is_identifier("oci", left[0]):
        return None
    tag = left[0].rpartition("/")[2].partition(":")[2]
    if not tag or tag == "latest":
        return None
    return {"registryType": "oci", "identifier": left[0], "transport": {"type": "stdio"}}


def _keys(table: Any) -> list[str]:
    return sorted(name for name in table if names.is_header(name)) if is_object(table) else []


def _input(name: str) -> JsonObject:
    return {"name": name, "isRequired": True} | ({"isSecret": True} if _SECRET.search(name) else {})


def _authorization(about: str) -> JsonObject:
    return {"name": "Authorization", "description": about, "isRequired": True, "isSecret": True}
