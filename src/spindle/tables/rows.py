"""From a tool of a catalog to a row that stands alone, without its secrets."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from spindle.domain.json_schema import JsonObject, is_array, is_object, to_json
from spindle.domain.tool import Tool
from spindle.domain.tool_row import ToolKind, ToolRow

Note = Callable[[str], None]

MASK = "•••"
GIVEN = "given"
"""The type of a credential that whoever calls must bring."""

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-[^}]*)?\}")
_SECRET = re.compile(r"key|token|secret|passw|pwd|auth|credential|cookie", re.IGNORECASE)
_FLAG = re.compile(r"--?([A-Za-z][\w-]*)(?:=(.*))?", re.DOTALL)
_SECRET_TABLES = ("env", "headers")
_SECRET_PARTS = frozenset({"token", "password", "value", "client_secret"})
"""Of an `auth` table; the rest of it is no secret."""


def source_of(name: str, table: Mapping[str, Any], root: Path, note: Note) -> JsonObject:
    """Where a tool comes from, as far as anybody may read it. Values in clear of variables and headers, and
    of whatever is named like a secret, become references to variables, which `note` is told of."""
    replaced: list[str] = []
    settings = {
        key: _without_secrets(key, value, replaced)
        for key, value in table.items()
        if key not in ("auth", "kind", "enabled")
    }
    for variable in replaced:
        note(f"{name}: a value in clear is not written to the table; calling needs the variable {variable}")
    return {"name": name, "kind": str(table["kind"]), "root": str(root), "settings": settings}


def credential_of(name: str, auth: Any) -> JsonObject | None:
    """The `auth` table if it says where its secrets are, else that one must be given."""
    if not is_object(auth):
        return None
    clear = any(key in _SECRET_PARTS and not _is_reference(value) for key, value in auth.items())
    return {"type": GIVEN, "name": name} if clear else auth


def row_of_tool(
    tool: Tool, source: JsonObject, credential: JsonObject | None, secrets: Collection[str] = ()
) -> ToolRow:
    """All that is known of the tool. `secrets` are masked wherever they should still turn up."""
    spec = tool.spec
    settings = cast(JsonObject, source["settings"])
    row = ToolRow.remote(
        tool.name,
        tool.description,
        tool.input_schema,
        kind=ToolKind.of_source(tool.kind),
        server_uri=_address(settings),
        remote_name=spec.remote_name,
        output_schema=tool.output_schema,
        hints=tool.hints,
        source=source,
        credential=credential,
        title=spec.title,
        tags=list(spec.tags),
        pure=spec.pure or None,
        place=spec.place or None,
        metadata=spec.metadata,
        fingerprint=tool.fingerprint,
    )
    text = to_json(row.to_dict()).decode()
    if not any(secret in text for secret in secrets):
        return row
    return ToolRow.from_dict(_masked(row.to_dict(), sorted(secrets, key=len, reverse=True)))


def _address(settings: JsonObject) -> str | None:
    for key in ("url", "base_url", "document"):
        found = settings.get(key)
        if isinstance(found, str) and ("://" in found or found.startswith("${")):
            return found
    return None


def _without_secrets(key: str, value: Any, replaced: list[str], *, secret: bool = False) -> Any:
    if isinstance(value, str):
        if secret or _SECRET.search(key):
            return value if _is_reference(value) else _reference(key, replaced)
        return _without_password(key, value, replaced) if "://" in value else value
    if is_object(value):
        hidden = secret or key in _SECRET_TABLES
        return {name: _without_secrets(name, item, replaced, secret=hidden) for name, item in value.items()}
    if is_array(value) or isinstance(value, tuple):
        return _words(key, list(cast("list[Any]", value)), replaced, secret=secret)
    return value


def _words(key: str, values: list[Any], replaced: list[str], *, secret: bool) -> list[Any]:
    """The arguments of a program: what follows `--token`, or stands behind its `=`, is a secret."""
    found: list[Any] = []
    before = ""
    for value in values:
        flag = _FLAG.fullmatch(value) if isinstance(value, str) else None
        if flag and _SECRET.search(flag[1]) and flag[2] and not _is_reference(flag[2]):
            found.append(value[: flag.start(2)] + _reference(flag[1], replaced))
        elif before and not flag:
            found.append(_without_secrets(before, value, replaced, secret=True))
        elif flag:
            found.append(_without_password(flag[1], value, replaced) if "://" in value else value)
        else:
            found.append(_without_secrets(key, value, replaced, secret=secret))
        before = flag[1] if flag and flag[2] is None and _SECRET.search(flag[1]) else ""
    return found


def _without_password(key: str, text: str, replaced: list[str]) -> str:
    """An address without what is secret in it."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return text
    place = parts.netloc
    if "@" in place:
        user, _, host = place.rpartition("@")
        name, colon, password = user.partition(":")
        if colon and not _is_reference(password):
            place = f"{name}:{_reference(f'{key}_password', replaced)}@{host}"
    query = parts.query
    for name, value in parse_qsl(parts.query):
        if _SECRET.search(name) and not _is_reference(value):
            hidden = re.escape(name) + r"=[^&]*"
            query = re.sub(hidden, lambda _, name=name: f"{name}={_reference(name, replaced)}", query)
    if (place, query) == (parts.netloc, parts.query):
        return text
    return urlunsplit((parts.scheme, place, parts.path, query, parts.fragment))


def _is_reference(value: Any) -> bool:
    """Whether a text says where its secret is. Numbers and the like are no secrets."""
    return not isinstance(value, str) or not value or _REFERENCE.search(value) is not None


def _reference(name: str, replaced: list[str]) -> str:
    variable = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").upper() or "SECRET"
    variable = variable if not variable[0].isdigit() else f"_{variable}"
    replaced.append(variable)
    return f"${{{variable}}}"


def _masked(value: Any, secrets: list[str]) -> Any:
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, MASK)
        return value
    if is_object(value):
        return {key: _masked(item, secrets) for key, item in value.items()}
    return [_masked(item, secrets) for item in value] if is_array(value) else value
