"""The administration of the workspace at hand, by the user of the shell."""

from __future__ import annotations

import contextlib
import getpass
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from spindle.cli.context import CliContext

if TYPE_CHECKING:
    from spindle.serving.administration import Administration, Administrator


@contextlib.asynccontextmanager
async def administration(cli: CliContext) -> AsyncGenerator[tuple[Administration, Administrator]]:
    """Opens the workspace to change who may come in. Changes are noted as those of the system's user."""
    from spindle.serving.administration import Administration, Administrator

    config = cli.settings().serve()
    async with cli.open() as app:
        yield Administration(app.store, lambda: config), Administrator(_user(), "shell")


def _user() -> str:
    try:
        return f"{getpass.getuser()} (shell)"
    except (KeyError, OSError):
        return "shell"
