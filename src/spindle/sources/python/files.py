"""Loading a folder of Python files as tools' homes.

Each folder becomes a package of its own name, so two workspaces never meet in `sys.modules`. Its
files may import each other plainly (`import other`), as scripts in one folder do: their `import`
looks in the folder first. Compiled files are neither read nor written, because two edits within one
second would be taken for one.
"""

from __future__ import annotations

import builtins
import contextlib
import hashlib
import importlib
import importlib.machinery
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

MAX_FILES = 2000


def folder_signature(folder: Path) -> str:
    """Changes when any Python file in the folder does."""
    marks: list[str] = []
    for path in _python_files(folder):
        with contextlib.suppress(OSError):
            stat = path.stat()
            marks.append(f"{path}:{stat.st_mtime_ns}:{stat.st_size}")
    return hashlib.sha256("\n".join(marks).encode()).hexdigest()[:32]


def module_signature(module: str, root: Path) -> str | None:
    for place in (root, *map(Path, sys.path)):
        base = place.joinpath(*module.split("."))
        for path in (base.with_suffix(".py"), base / "__init__.py"):
            if path.is_file():
                stat = path.stat()
                return f"{path}:{stat.st_mtime_ns}:{stat.st_size}"
    return None


def _python_files(folder: Path) -> list[Path]:
    found: list[Path] = []
    for base, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__pycache__")))
        found += [Path(base, name) for name in sorted(files) if name.endswith(".py")]
        if len(found) > MAX_FILES:
            break
    return found


class _FreshLoader(importlib.machinery.SourceFileLoader):
    """Compiles from the source every time, and gives the module the folder's own `import`."""

    def __init__(self, name: str, path: str, folder: FolderModules) -> None:
        super().__init__(name, path)
        self._folder = folder

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.get_data(self.path), self.path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__builtins__"] = self._folder.builtins_for(module)
        super().exec_module(module)


class FolderModules:
    """The modules of one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        mark = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:12]
        self.package = f"spindle_workspace_{mark}"

    def load_all(self) -> Iterator[tuple[Path, ModuleType | str]]:
        """Each file with its module, or with why it could not be imported."""
        self.forget()
        package = ModuleType(self.package)
        package.__path__ = [str(self.folder)]
        sys.modules[self.package] = package
        for path in sorted(self.folder.glob("*.py")):
            if path.name.startswith(("_", ".")):
                continue
            try:
                yield path, self._load(path.stem)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it is, it is reported
                yield path, _reason(error, path)

    def forget(self) -> None:
        for name in [name for name in sys.modules if name.partition(".")[0] == self.package]:
            del sys.modules[name]

    def builtins_for(self, module: ModuleType) -> dict[str, Any]:
        own = module.__name__.rpartition(".")[2]

        def import_(
            name: str,
            globals: Mapping[str, object] | None = None,
            locals: Mapping[str, object] | None = None,
            fromlist: Sequence[str] = (),
            level: int = 0,
        ) -> ModuleType:
            top = name.partition(".")[0]
            if level == 1 and self._has(top):
                self._load(top)
            if level == 0 and top != own and self._has(top):
                first = self._load(top)
                full = importlib.import_module(f"{self.package}.{name}")
                return full if fromlist else first
            return builtins.__import__(name, globals, locals, fromlist, level)

        return {**vars(builtins), "__import__": import_}

    def _has(self, name: str) -> bool:
        return self._file(name) is not None

    def _file(self, name: str) -> Path | None:
        if not name.isidentifier():
            return None
        for path in (self.folder / f"{name}.py", self.folder / name / "__init__.py"):
            if path.is_file():
                return path
        return None

    def _load(self, name: str) -> ModuleType:
        full = f"{self.package}.{name}"
        if full in sys.modules:
            return sys.modules[full]
        path = self._file(name)
        assert path is not None
        locations = [str(path.parent)] if path.name == "__init__.py" else None
        spec = importlib.util.spec_from_file_location(
            full, path, loader=_FreshLoader(full, str(path), self), submodule_search_locations=locations
        )
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[full] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            sys.modules.pop(full, None)
            raise
        setattr(sys.modules[self.package], name, module)
        return module


def load_module(name: str, root: Path, *, again: bool) -> ModuleType:
    """An importable module, looked for in the workspace first."""
    sys.path.insert(0, str(root))
    try:
        module = importlib.import_module(name)
        return importlib.reload(module) if again else module
    finally:
        sys.path.remove(str(root))


def _reason(error: BaseException, path: Path) -> str:
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg}"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename == str(path):
            return f"line {frame.lineno}: {type(error).__name__}: {error}"
    return f"{type(error).__name__}: {error}"
