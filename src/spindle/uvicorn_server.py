"""uvicorn inside a program that keeps its own signals. What leans on uvicorn's insides is all here."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import uvicorn

if TYPE_CHECKING:
    from starlette.types import ASGIApp


class EmbeddedServer(uvicorn.Server):
    """Serves an application over sockets that are open already, and is stopped by its program."""

    def __init__(self, app: ASGIApp, **options: Any) -> None:
        """`options` are those of `uvicorn.Config`."""
        quiet: dict[str, Any] = {"log_config": None, "log_level": "critical", "access_log": False}
        super().__init__(uvicorn.Config(app, lifespan="off", ws="none", **quiet, **options))

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leaves signals alone: Ctrl-C belongs to the program, which calls `stop`."""
        yield

    def stop(self, seconds: float) -> None:
        """Takes no more requests, and lets those that run end within these seconds. `serve` returns then."""
        self.config.timeout_graceful_shutdown = max(1, round(seconds)) if seconds else 0
        self.should_exit = True
