"""Loads Python files that define tools.

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
import importlib.abc
import importlib.util
import os
import sys
import threading
import traceback
from collections.abc import Generator, Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from spindle.code_marks import file_digest

MAX_FILES = 2000


def folder_signature(folder: Path, endings: tuple[str, ...] = (".py",)) -> str:
    """A text that changes when any file in the folder with one of the endings does."""
    marks: list[str] = []
    for path in _files(folder, endings):
        with contextlib.suppress(OSError):
            marks.append(f"{path}:{file_digest(path)}")
    return hashlib.sha256("\n".join(marks).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def module_signature(module: str, root: Path) -> str | None:
    """A text that changes when the module's file does, or any file of the package."""
    for place in (root, *map(Path, sys.path)):
        base = place.joinpath(*module.split("."))
        if (base / "__init__.py").is_file():
            return folder_signature(base)
        with contextlib.suppress(OSError):
            return file_digest(f"{base}.py")
    return None


def _files(folder: Path, endings: tuple[str, ...] = (".py",)) -> list[str]:
    found: list[str] = []
    for base, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__pycache__")))
        found += [os.path.join(base, name) for name in sorted(files) if name.endswith(endings)]
        if len(found) > MAX_FILES:
            break
    return found


class _FreshLoader(SourceFileLoader):
    """Compiles from source every time, and gives the module the folder's own `import`."""

    def __init__(self, name: str, path: str, folder: FolderModules) -> None:
        super().__init__(name, path)
        self._folder = folder

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.get_data(self.path), self.path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__builtins__"] = self._folder.builtins_for(module)
        super().exec_module(module)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules of all folders, each in its own package."""

    def __init__(self) -> None:
        self.folders: dict[str, FolderModules] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, inside = fullname.partition(".")
        folder = self.folders.get(package)
        return folder.spec(fullname, inside) if folder is not None else None


_finder = _Finder()
_locks: dict[str, threading.RLock] = {}


class FolderModules:
    """The modules of one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        mark = hashlib.sha256(str(folder.resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:12]
        self.package = f"spindle_workspace_{mark}"
        _finder.folders[self.package] = self
        if _finder not in sys.meta_path:
            sys.meta_path.insert(0, _finder)

    def load_all(self) -> Iterator[tuple[Path, ModuleType | str]]:
        """Yields each file with its module, or with the reason why it could not be imported."""
        with self.fresh():
            for path in sorted(self.folder.glob("*.py")):
                if path.name.startswith(("_", ".")):
                    continue
                try:
                    yield path, self.load(path.stem)
                except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it is, it is reported
                    yield path, _reason(error, path)

    @contextlib.contextmanager
    def fresh(self) -> Generator[None]:
        """Forgets the loaded modules, so that they are read again inside. One thread at a time."""
        with _locks.setdefault(self.package, threading.RLock()):
            for name in list(sys.modules):  # a copy at once: other threads import meanwhile
                if name.partition(".")[0] == self.package:
                    del sys.modules[name]
            yield

    def load(self, name: str) -> ModuleType:
        """Imports a module of the folder."""
        return importlib.import_module(f"{self.package}.{name}")

    def has(self, name: str) -> bool:
        """True if the folder has a module of that name."""
        return name.isidentifier() and (
            (self.folder / f"{name}.py").is_file() or (self.folder / name / "__init__.py").is_file()
        )

    def builtins_for(self, module: ModuleType) -> dict[str, Any]:
        """The builtins of a module, with an `import` that looks in the folder first."""
        own = module.__name__.partition(".")[2]

        def import_(
            name: str,
            globals: Mapping[str, object] | None = None,
            locals: Mapping[str, object] | None = None,
            fromlist: Sequence[str] = (),
            level: int = 0,
        ) -> ModuleType:
            top = name.partition(".")[0]
            # A file may share its name with the library it uses: `github.py` that imports github.
            if level > 0 or top == own or not self.has(top):
                return builtins.__import__(name, globals, locals, fromlist, level)
            found = builtins.__import__(f"{self.package}.{name}", globals, locals, fromlist, 0)
            return found if fromlist else sys.modules[f"{self.package}.{top}"]

        return {**vars(builtins), "__import__": import_}

    def spec(self, fullname: str, inside: str) -> ModuleSpec | None:
        """The import spec of a module in the folder, or None."""
        base = self.folder.joinpath(*inside.split(".")) if inside else self.folder
        for path in (base / "__init__.py", base.with_name(f"{base.name}.py")):
            if inside and path.is_file():
                return importlib.util.spec_from_file_location(
                    fullname,
                    path,
                    loader=_FreshLoader(fullname, str(path), self),
                    submodule_search_locations=[str(base)] if path.parent == base else None,
                )
        if not base.is_dir():
            return None
        spec = ModuleSpec(fullname, None, is_package=True)
        spec.submodule_search_locations = [str(base)]
        return spec


def load_module(name: str, root: Path, *, again: bool) -> ModuleType:
    """Imports a module of the workspace, under a name of its own, or else one that Python itself finds."""
    folder = FolderModules(root)
    if folder.has(name.partition(".")[0]):
        with folder.fresh():
            return folder.load(name)
    module = importlib.import_module(name)
    if again and module.__file__:
        # Not importlib.reload(): it would miss an edit within the same second, and keep
        # functions that are no longer in the file.
        code = compile(Path(module.__file__).read_bytes(), module.__file__, "exec", dont_inherit=True)
        kept = {key: value for key, value in vars(module).items() if key.startswith("__")}
        vars(module).clear()
        vars(module).update(kept)
        exec(code, vars(module))  # noqa: S102 - the module's own source, as import does
    return module


def _reason(error: BaseException, path: Path) -> str:
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"line {error.lineno}: {error.msg}"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename == str(path):
            return f"line {frame.lineno}: {type(error).__name__}: {error}"
    return f"{type(error).__name__}: {error}"
