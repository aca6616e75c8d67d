"""The spindle.toml that a command edits, and a check before writing it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle import settings

if TYPE_CHECKING:
    from spindle.cli.context import CliContext


def file_to_edit(cli: CliContext, *, user: bool) -> Path:
    """The user's own file, the workspace's, or a new one in the current folder. What would be made a
    workspace, or is one, must be trusted first."""
    if user:
        return settings.user_folder() / settings.FILE_NAME
    folder = settings.workspace_root(cli.workspace) or Path.cwd()
    require_trust_in(cli, folder)
    return folder / settings.FILE_NAME


def require_trust_in(cli: CliContext, folder: Path) -> None:
    """Raises UntrustedError if the folder holds something that could run, and nobody trusts it. In a folder
    without any such thing a workspace can be made: then all that is in it comes from this user."""
    named, cli.workspace = cli.workspace, str(folder)
    try:
        found = settings.load(folder, trusted=cli.trusted)
        if not found.verdict.trusted and found.cover().files:
            cli.load().require_trust()
    finally:
        cli.workspace = named


def check_source(name: str, table: dict[str, Any], file: Path) -> None:
    """Refuses a table that would not be accepted when read again, and names every mistake."""
    from spindle.catalog.sources import SourceSet

    alone = settings.Settings(file.parent, {"sources": {name: table}}, {name: str(file)}, is_workspace=False)
    SourceSet(alone, lambda _sentence: None).validate()
