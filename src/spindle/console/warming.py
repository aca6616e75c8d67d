"""Makes ready what the first look at a page would wait for."""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Final

from spindle.giving_way import considerate, give_way

if TYPE_CHECKING:
    from spindle.console.rendering import Pages

MODULES: Final = ("spindle.domain.engine", "spindle.domain.retention")
"""Those that the page of health needs, and nobody before."""


class Warming:
    """Compiles templates in a thread, from the first request on: while somebody signs in, and between the
    pages that they look at. Beside a page it would take more time from it than it saves: each row that the
    page reads from the store waits for the thread."""

    def __init__(self, pages: Pages, first: Sequence[str], is_free: threading.Event | None = None) -> None:
        """`first`: the templates of the page that people come to, before all others."""
        self._pages = pages
        self._first = first
        self.thread: threading.Thread | None = None
        self._shown = 0
        self._is_free = is_free or threading.Event()
        self._is_free.set()

    def begin(self) -> None:
        """Starts, once."""
        if self.thread is None:
            self.thread = threading.Thread(target=self._make_ready, name="pages made ready", daemon=True)
            self.thread.start()

    @contextlib.contextmanager
    def paused(self) -> Generator[None]:
        """Rests while a page is made, but for the template that it is at."""
        self._shown += 1
        self._is_free.clear()
        try:
            yield
        finally:
            self._shown -= 1
            if not self._shown:
                self._is_free.set()

    def _make_ready(self) -> None:
        with considerate():
            for name in [*self._first, *self._pages.templates()]:
                give_way()
                self._is_free.wait()
                self._pages.compile(name)
            for name in MODULES:
                self._is_free.wait()
                importlib.import_module(name)
