"""The folders of settings: a workspace's, and the user's own."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final, Literal

from spindle.errors import ConfigurationError
from spindle.trust.marks import Marks

FILE_NAME = "spindle.toml"
_LINUX: Final = {
    "config": ("XDG_CONFIG_HOME", "~/.config"),
    "data": ("XDG_DATA_HOME", "~/.local/share"),
}
"""By kind of folder, the variable that says where it is, and where it is without."""


def workspace_root(path: Path | str | None) -> Path | None:
    """The folder of the workspace at `path`, which must exist, or of the nearest one at or above the
    current folder."""
    if path is not None:
        given = Path(path).expanduser().resolve()
        if given.name == FILE_NAME and given.is_file():
            return given.parent
        if not given.is_dir():
            raise ConfigurationError(
                f"there is no folder {given}", hint="create a workspace with `spindle new PATH`"
            )
        return given
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / FILE_NAME).is_file():
            return folder
    return None


def user_folder() -> Path:
    """The folder of the user's own settings and state, apart from any workspace."""
    home = os.environ.get("SPINDLE_HOME")
    if home:
        return Path(home).expanduser()
    return own_folder("config")


def data_folder() -> Path:
    """The folder of the user's own data other than settings, such as the key for stored secrets."""
    if os.environ.get("SPINDLE_HOME"):
        return user_folder()
    return own_folder("data")


def trust_marks() -> Marks:
    """The user's marks of trusted workspaces."""
    return Marks(data_folder() / "trust")


def own_folder(kind: Literal["config", "data"]) -> Path:
    """The folder of this user for what Spindle keeps. On Linux without `platformdirs`, which loads readers of
    archives and more: nearly a megabyte of every server."""
    if sys.platform == "linux":
        variable, usual = _LINUX[kind]
        folder = os.environ.get(variable, "")
        return Path(folder if os.path.isabs(folder) else usual).expanduser() / "spindle"
    from platformdirs import user_config_path, user_data_path

    return (user_config_path if kind == "config" else user_data_path)("spindle")
