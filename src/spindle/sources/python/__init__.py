"""Python functions as tools: from a folder of files, from a module, or given as objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.sources.code.source import CodeSource

if TYPE_CHECKING:
    from spindle.domain.identity import Credential
    from spindle.domain.tool import Tool
    from spindle.ports.source import Note
    from spindle.sources.python.config import PythonConfig
    from spindle.sources.python.session import PythonSession


class PythonSource(CodeSource["PythonConfig"]):
    """A source of Python functions."""

    _functions: Sequence[Callable[..., Any]] = ()

    @classmethod
    def of_functions(
        cls, name: str, functions: Sequence[Callable[..., Any]], root: Path, note: Note
    ) -> tuple[PythonSource, PythonConfig]:
        """A source of given functions, under their plain names."""
        from spindle.sources.python.config import PythonConfig

        # Not validated, since it has neither a folder nor a module.
        config = PythonConfig.model_construct(prefix=False)
        source = cls(name, config, root, note)
        source._functions = functions
        return source, config

    @staticmethod
    def config_model() -> type[PythonConfig]:
        from spindle.sources.python.config import PythonConfig

        return PythonConfig

    @staticmethod
    def signature(settings: Mapping[str, Any], root: Path) -> str | None:
        from spindle.sources.code.modules import folder_signature, module_signature

        if "path" in settings:
            return folder_signature(root / str(settings["path"]))
        if "module" in settings:
            return module_signature(str(settings["module"]), root)
        return None

    def behaviour(self, tool: Tool) -> str:
        if not self._functions:
            return super().behaviour(tool)
        from spindle.sources.code.behaviour import functions_mark

        return functions_mark([*self._functions], self.root)

    def open(self, credential: Credential, on_change: Callable[[], None]) -> PythonSession:
        from spindle.sources.python.session import PythonSession

        return PythonSession(self.name, self.config, self.root, self._functions, self.note, self.loaded)
