"""Turns a tool of a catalog into a row that stands alone and holds no secrets."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, cast

from spindle.calls.record import MASK
from spindle.domain.json_schema import JsonObject, is_array, is_object, to_json
from spindle.domain.tool import Tool
from spindle.tables.ports import with_ports
from spindle.tables.tool_row import ToolKind, ToolRow

Note = Callable[[str], None]

GIVEN = "given"
"""The type of a credential that whoever calls must bring."""

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-[^}]*)?\}")
_SECRET = re.compile(r"key|token|secret|passw|pwd|auth|credential|cookie", re.IGNORECASE)
_FLAG = re.compile(r"--?([A-Za-z][\w-]*)(?:=(.*))?", re.DOTALL)
_SECRET_TABLES = ("env", "headers")
_SECRET_PARTS = frozenset({"token", "password", "value", "client_secret"})
"""Of an `auth` table; the rest of it is no secret."""


class Hidden:
    """Secret values found in settings, which are not passed on, and the variables that replace them."""

    def __init__(self) -> None:
        self.values: set[str] = set()
        self.variables: list[str] = []

    def reference(self, name: str, value: str) -> str:
        """The text written in place of a value. References stay, without their defaults: those may be
        secrets too."""
        if _REFERENCE.search(value):
            return _REFERENCE.sub(lambda match: f"${{{match[1]}}}", value)
        variable = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").upper() or "SECRET"
        variable = f"_{variable}" if variable[0].isdigit() else variable
        self.values.add(value)
        self.variables.append(variable)
        return f"${{{variable}}}"


def source_of(name: str, table: Mapping[str, Any], root: Path, hidden: Hidden) -> JsonObject:
    """The source of a tool, as far as anybody may read it. Plain values of variables and headers, and of
    keys named like a secret, become references to variables."""
    # The rules of `errors` have categories for keys, such as `auth`, and no secrets.
    settings = {
        key: value if key == "errors" else _without_secrets(key, value, hidden)
        for key, value in table.items()
        if key not in ("auth", "kind", "enabled")
    }
    return {"name": name, "kind": str(table["kind"]), "root": str(root), "settings": settings}


def credential_of(name: str, auth: Any, hidden: Hidden) -> JsonObject | None:
    """The `auth` table if it only refers to its secrets; otherwise a note that a credential must be given."""
    if not is_object(auth):
        return None
    secret = {key: str(value) for key, value in auth.items() if key in _SECRET_PARTS and value}
    clear = {value for value in secret.values() if not _REFERENCE.search(value)}
    hidden.values |= clear
    if clear:
        return {"type": GIVEN, "name": name}
    return {**auth, **{key: hidden.reference(key, value) for key, value in secret.items()}}


def row_of_tool(
    tool: Tool, source: JsonObject, credential: JsonObject | None, secrets: Collection[str] = ()
) -> ToolRow:
    """The row of a tool with all that is known of it, except the place of its definition: the source has
    that, and a command line may hold secrets. `secrets` are masked wherever they still occur."""
    spec = tool.spec
    row = ToolRow.remote(
        tool.name,
        tool.description,
        tool.input_schema,
        kind=ToolKind.of_source(tool.kind),
        server_uri=address_of(source),
        remote_name=spec.remote_name,
        output_schema=tool.output_schema,
        hints=tool.hints,
        source=source,
        credential=credential,
        title=spec.title,
        tags=list(spec.tags),
        pure=spec.pure or None,
        metadata=spec.metadata,
        fingerprint=tool.fingerprint,
    )
    if row.kind is ToolKind.WORKFLOW:
        row = with_ports(row)
    described = row.to_dict()
    text = to_json(described).decode()
    if not any(secret in text for secret in secrets):
        return row
    shown = _masked(described, sorted(secrets, key=len, reverse=True))
    # The data for making the call has no secrets and must not change.
    kept = {key: value for key, value in (row.input or {}).items() if key in ("tool", "source", "credential")}
    shown |= {"name": row.name, "server_uri": row.server_uri, "input": {**shown["input"], **kept}}
    return ToolRow.from_dict(shown)


def address_of(source: JsonObject) -> str | None:
    """The URI of the server, if it has one."""
    settings = cast(JsonObject, source["settings"])
    for key in ("url", "base_url", "document"):
        found = settings.get(key)
        if isinstance(found, str) and ("://" in found or found.startswith("${")):
            return found
    return None


def _without_secrets(key: str, value: Any, hidden: Hidden, *, secret: bool = False) -> Any:
    if isinstance(value, str):
        if value and (secret or _SECRET.search(key)):
            return hidden.reference(key, value)
        return _without_password(key, value, hidden) if "://" in value else value
    if is_object(value):
        inside = secret or key in _SECRET_TABLES
        return {name: _without_secrets(name, item, hidden, secret=inside) for name, item in value.items()}
    if is_array(value) or isinstance(value, tuple):
        return _words(key, list(cast("list[Any]", value)), hidden, secret=secret)
    return value


def _words(key: str, values: list[Any], hidden: Hidden, *, secret: bool) -> list[Any]:
    """The arguments of a program, with secrets hidden: the one after `--token`, or after its `=`."""
    found: list[Any] = []
    before = ""
    for value in values:
        flag = _FLAG.fullmatch(value) if isinstance(value, str) else None
        if flag and flag[2] and _SECRET.search(flag[1]):
            found.append(value[: flag.start(2)] + hidden.reference(flag[1], flag[2]))
        elif before and not flag:
            found.append(_without_secrets(before, value, hidden, secret=True))
        elif flag:
            found.append(_without_password(flag[1], value, hidden) if "://" in value else value)
        else:
            found.append(_without_secrets(key, value, hidden, secret=secret))
        before = flag[1] if flag and flag[2] is None and _SECRET.search(flag[1]) else ""
    return found


_PASSWORD = re.compile(r"(://[^/?#\s:@]*:)([^/?#\s]*)(@)")
_QUERY = re.compile(r"([?&#]([^=?&#\s]+)=)([^&#\s]+)")
# Of a query, besides what is named like a secret: parts that sign the address, so that it alone lets in.
_SIGNING = re.compile(
    r"(?:^|[-_.])(?:sig|sign|signature|hmac|jwt|sas|sid|session|ticket|code|otp)(?:$|[-_.])", re.IGNORECASE
)


def _without_password(key: str, text: str, hidden: Hidden) -> str:
    """An address without its secrets."""
    shown = _PASSWORD.sub(
        lambda found: found[1] + hidden.reference(f"{key}_password", found[2]) + found[3], text
    )
    return _QUERY.sub(
        lambda found: (
            found[1] + hidden.reference(found[2], found[3])
            if _SECRET.search(found[2]) or _SIGNING.search(found[2])
            else found[0]
        ),
        shown,
    )


def _masked(value: Any, secrets: list[str]) -> Any:
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, MASK)
        return value
    if is_object(value):
        return {key: _masked(item, secrets) for key, item in value.items()}
    return [_masked(item, secrets) for item in value] if is_array(value) else value
