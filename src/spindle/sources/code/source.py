"""A source whose tools are Python code of the workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from spindle.ports.source import Source

if TYPE_CHECKING:
    from pathlib import Path

    from spindle.domain.source import SourceConfig
    from spindle.domain.tool import Tool
    from spindle.ports.source import Note

ConfigT = TypeVar("ConfigT", bound="SourceConfig")


class CodeSource(Source[ConfigT]):
    """A source of Python code. A tool does what its code says: that which is loaded, or else its file."""

    def __init__(self, name: str, config: ConfigT, root: Path, note: Note) -> None:
        super().__init__(name, config, root, note)
        self.loaded: dict[str, str] = {}
        """By tool, the mark of the code that a session has loaded."""

    def behaviour(self, tool: Tool) -> str:
        from spindle.code_marks import code_of

        code = self.loaded.get(tool.spec.remote_name) or code_of(tool.spec.place, self.root)
        return f"{super().behaviour(tool)} {code}"
