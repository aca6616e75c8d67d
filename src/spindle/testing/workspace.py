"""Temporary workspaces for tests."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.opening import Opening, open
from spindle.settings import Settings

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.blocking import BlockingSpindle


def workspace(
    tools: Sequence[Callable[..., Any]] = (),
    *,
    sources: Mapping[str, Mapping[str, Any]] | None = None,
    settings: Mapping[str, Any] | None = None,
    files: Mapping[str, str] | None = None,
    **options: Any,
) -> TestWorkspace:
    """A ready app for one test, entered with `async with` or, blocking, with `with`.

    `tools` are functions; `sources` are tables as in `spindle.toml`, and `settings` is the rest of that file;
    `files` are written into the folder, such as `{"tools/mail.py": "…"}`. The user's own settings and keys
    are not read, and state is kept in memory. Other options are those of `spindle.open`.
    """
    return TestWorkspace(tools, sources or {}, settings or {}, files or {}, options)


class TestWorkspace:
    """A workspace in a folder of its own that is removed afterwards, made by `workspace`."""

    __test__ = False  # tells pytest that this is no class of tests

    def __init__(
        self,
        tools: Sequence[Callable[..., Any]],
        sources: Mapping[str, Mapping[str, Any]],
        settings: Mapping[str, Any],
        files: Mapping[str, str],
        options: Mapping[str, Any],
    ) -> None:
        self._tools = tools
        self._raw = {
            "store": ":memory:",
            **settings,
            "sources": {name: dict(table) for name, table in sources.items()},
        }
        self._files = files
        self._options = options
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._opening: Opening | None = None

    @property
    def root(self) -> Path:
        """The folder, while the workspace is open."""
        assert self._folder is not None, "the workspace is not open"
        return Path(self._folder.name)

    def _prepare(self) -> Opening:
        from spindle.auth.keys import VARIABLE, new_key

        self._folder = tempfile.TemporaryDirectory(prefix="spindle-test-")
        for name, text in self._files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        environ = {VARIABLE: new_key(), **(self._options.get("environ") or os.environ)}
        options: dict[str, Any] = {**self._options, "environ": environ}
        self._opening = open(
            settings=Settings(self.root, dict(self._raw), environ=environ), tools=self._tools, **options
        )
        return self._opening

    async def __aenter__(self) -> Spindle:
        opening = self._prepare()
        try:
            return await opening.__aenter__()
        except BaseException:
            self._remove()
            raise

    async def __aexit__(self, *raised: Any) -> None:
        assert self._opening is not None
        try:
            await self._opening.__aexit__(*raised)
        finally:
            self._remove()

    def __enter__(self) -> BlockingSpindle:
        opening = self._prepare()
        try:
            return opening.__enter__()
        except BaseException:
            self._remove()
            raise

    def __exit__(self, *raised: Any) -> None:
        assert self._opening is not None
        try:
            self._opening.__exit__(*raised)
        finally:
            self._remove()

    def _remove(self) -> None:
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
