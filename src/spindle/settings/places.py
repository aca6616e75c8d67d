"""The folders of settings: a workspace's, and the user's own."""

from __future__ import annotations

import os
from pathlib import Path

from spindle.errors import ConfigurationError
from spindle.trust.marks import Marks

FILE_NAME = "spindle.toml"


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
    from platformdirs import user_config_path

    return user_config_path("spindle")


def data_folder() -> Path:
    """The folder of the user's own data other than settings, such as the key for stored secrets."""
    if os.environ.get("SPINDLE_HOME"):
        return user_folder()
    from platformdirs import user_data_path

    return user_data_path("spindle")


def trust_marks() -> Marks:
    """The user's marks of trusted workspaces."""
    return Marks(data_folder() / "trust")
