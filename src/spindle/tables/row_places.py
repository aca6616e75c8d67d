"""The place where a row is called: the server that it names, a workspace of flows, or the software that the
workflow is of. Rows without one are refused."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from spindle.domain.identity import Credential
from spindle.domain.json_schema import JsonObject, canonical, is_object
from spindle.domain.source import SOURCE_NAME
from spindle.errors import AuthError, ConfigurationError, PermissionDeniedError, SpindleError
from spindle.plugins import config_models
from spindle.settings import FILE_NAME
from spindle.settings.validate import validate_sources
from spindle.tables.rows import GIVEN
from spindle.tables.tool_row import ToolKind, ToolRow

if TYPE_CHECKING:
    import pyarrow as pa

    from spindle.app import Spindle
    from spindle.domain.tool import Tool

# The settings that need no trust: those that say where a server is. Any other could start a program,
# read a file or send a variable to a stranger.
_REMOTE_KINDS = frozenset({"mcp", "openapi", "http", "utcp", "websocket"})
_HARMLESS = frozenset({
    "url", "document", "base_url", "prefix", "description", "transport", "protocol", "timeout",
    "connect_timeout", "requests", "include", "exclude",
})  # fmt: skip

FLOWS = "flows"
WORKFLOWS = "workflows"
_SERVERS = "rows"

Home = tuple[str, Path | None]
"""The opened workspace that a source is in."""

RunWorkflow = Callable[[ToolRow, JsonObject, "list[pa.Table]"], "tuple[str, list[pa.Table]]"]
"""Runs a workflow of other software: with its row, its configuration, and a table for each input port.
Returns its message, and the tables of its output ports. Blocks."""


@dataclass
class RowSource:
    """A source that rows have in common."""

    name: str
    kind: str
    home: Home
    settings: JsonObject
    credential: Credential | None = None
    tools: dict[str, Tool] | None = field(default=None)

    @property
    def table(self) -> JsonObject:
        """Its settings as a workspace has them."""
        return {"kind": self.kind, **self.settings}


class RowRefused(Exception):  # noqa: N818 - it says what is refused, and becomes an error for each row
    """Rows of a source cannot be called here. The reason is the end of a sentence that begins with a name."""

    def __init__(self, kind: type[SpindleError], reason: str, hint: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.hint = hint

    def of(self, row: ToolRow) -> SpindleError:
        """The error for one row."""
        return self.kind(f"{row.name} {self.reason}", hint=self.hint, tool=row.name)


@dataclass(frozen=True)
class RowPermissions:
    """Holds what a caller of rows allows, and the credentials and workflows that it has to offer."""

    trusted: bool = False
    credentials: Mapping[str, Credential] = field(default_factory=dict[str, Credential])
    workspace: Path | str | Spindle | None = None
    run_workflow: RunWorkflow | None = None


def key_of(row: ToolRow) -> bytes:
    """The same for rows that have their source in common."""
    return canonical([int(row.kind), row.source, row.credential, row.server_uri])


def place_of(row: ToolRow, reach: RowPermissions, taken: Mapping[str, Any]) -> RowSource:
    """The source of a row, under a name that is not taken. Raises RowRefused."""
    source = row.source
    if row.kind is ToolKind.WORKFLOW:
        if source is None and reach.run_workflow is not None:
            return RowSource(_unique(WORKFLOWS, taken), WORKFLOWS, (WORKFLOWS, None), {})
        if reach.workspace is not None if source is None else source.get("kind") == FLOWS:
            return RowSource(_unique(FLOWS, taken), FLOWS, (FLOWS, _home_of_flow(row, reach)), {})
    source = _whole(source or _source_of_address(row))
    kind, settings = str(source["kind"]), dict(source["settings"])
    settings.pop("prefix", None)
    if not reach.trusted:
        _require_harmless(row, kind, settings)
    shown: Credential | None = None
    wanted = row.credential
    if wanted is not None and wanted.get("type") == GIVEN:
        shown = reach.credentials.get(str(wanted.get("name")))
        if shown is None or not shown.key:
            raise RowRefused(
                AuthError,
                f"wants the credential {wanted.get('name')!r} to be given",
                f"credentials={{{wanted.get('name')!r}: …}}",
            )
    elif wanted:
        settings["auth"] = wanted
    home: Home = (_SERVERS, Path(source.get("root") or Path.cwd()))
    place = RowSource(_unique(_readable(row, source), taken), kind, home, settings, shown)
    _validate(place)
    return place


def without_places(text: str, place: RowSource) -> str:
    """A message about a source without the words for its place in a file of settings: a row has none."""
    for prefix in (f"{FILE_NAME}: sources.{place.name}.", f"{FILE_NAME}: sources.{place.name}: "):
        text = text.replace(prefix, "")
    return text.replace(f"sources.{place.name}.", "its setting ")


def _validate(place: RowSource) -> None:
    """Finds mistakes in one source alone: in a workspace they would be mistakes of all."""
    try:
        validate_sources(
            {place.name: place.table}, lambda _: FILE_NAME, config_models({place.kind}), os.environ
        )
    except ConfigurationError as error:
        problems: list[str] = error.details or [error.message]
        said = "; ".join(without_places(problem, place) for problem in problems)
        raise RowRefused(
            ConfigurationError, f"has a source that cannot be used: {said}", "make the table again"
        ) from None


def _whole(source: JsonObject) -> JsonObject:
    """The source, which anybody may have written, if it has what a source needs."""
    root = source.get("root")
    if (
        isinstance(source.get("kind"), str)
        and is_object(source.get("settings"))
        and (root is None or (isinstance(root, str) and "\0" not in root))
    ):
        return source
    raise RowRefused(
        ConfigurationError,
        "has a source without `kind` and `settings`, or with a `root` that is no folder",
        "make the table again",
    )


def _readable(row: ToolRow, source: JsonObject) -> str:
    """A name for the source that its user knows: its own, or that of its server."""
    own = str(source.get("name") or "")
    if SOURCE_NAME.fullmatch(own) and own != "server":
        return own
    try:
        host = urlsplit(row.server_uri or "").hostname or ""
    except ValueError:
        host = ""
    made = re.sub(r"[^A-Za-z0-9]+", "-", host).strip("-")[:50]
    if not made:
        return "server"
    return made if made[0].isalpha() else f"server-{made}"


def _unique(name: str, taken: Mapping[str, Any]) -> str:
    number, chosen = 1, name
    while chosen in taken:
        number += 1
        chosen = f"{name}-{number}"
    return chosen


def _home_of_flow(row: ToolRow, reach: RowPermissions) -> Path | None:
    """The folder of the workspace, or None for the current one or the one that is already open."""
    workspace = reach.workspace
    if workspace is not None:
        return Path(workspace) if isinstance(workspace, str | Path) else None
    if not reach.trusted:
        raise RowRefused(
            PermissionDeniedError,
            "runs a flow on this machine, and the table is not trusted",
            "name the workspace whose flows it may run: workspace=…, or pass trusted=True if you know "
            "who made it",
        )
    written = Path(_whole({"settings": {}, **(row.source or {})}).get("root") or ".")
    return written if (written / FILE_NAME).is_file() or (written / FLOWS).is_dir() else None


def _source_of_address(row: ToolRow) -> JsonObject:
    if row.kind is ToolKind.MCP and row.server_uri:
        return {"kind": "mcp", "settings": {"url": row.server_uri}}
    what = (
        "is a workflow of other software"
        if row.kind is ToolKind.WORKFLOW
        else "does not say where it comes from"
    )
    raise RowRefused(ConfigurationError, f"cannot be called: it {what}", "make the table with Spindle")


def _require_harmless(row: ToolRow, kind: str, settings: JsonObject) -> None:
    document = settings.get("document")
    local = isinstance(document, str) and not document.startswith(("http://", "https://"))
    variables = b"${" in canonical([settings, row.credential])
    if kind in _REMOTE_KINDS and settings.keys() <= _HARMLESS and not local and not variables:
        return
    what = (
        "shows variables of yours to a server"
        if variables
        else "reads a file"
        if local
        else f"starts {settings['command']!r}"
        if "command" in settings
        else f"uses more of this machine than the network (kind {kind!r})"
    )
    raise RowRefused(
        PermissionDeniedError,
        f"{what}, and the table is not trusted",
        "pass trusted=True if you know who made it",
    )
