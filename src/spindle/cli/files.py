"""The spindle.toml that a command edits, and a check of what it is about to write."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle import settings

if TYPE_CHECKING:
    from spindle.cli.context import CliContext


def file_to_edit(cli: CliContext, *, user: bool) -> Path:
    """The user's own file, the workspace's, or one to be made in the current folder."""
    if user:
        return settings.user_folder() / settings.FILE_NAME
    return (settings.workspace_root(cli.workspace) or Path.cwd()) / settings.FILE_NAME


def check_source(name: str, table: dict[str, Any], file: Path) -> None:
    """Refuse, with every mistake named, what would not be accepted when it is read again."""
    from spindle.catalog.sources import SourceSet

    alone = settings.Settings(file.parent, {"sources": {name: table}}, {name: str(file)}, is_workspace=False)
    SourceSet(alone, lambda _sentence: None).validate()
