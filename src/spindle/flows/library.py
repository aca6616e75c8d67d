"""The flows of a workspace: what `flows/` holds, and what a user means by a word."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from spindle.errors import NotFoundError, suggest
from spindle.flows.problems import BrokenFlowError
from spindle.flows.text.files import FORMATS, Loaded, read_file

if TYPE_CHECKING:
    from spindle.domain.tool import Tool
    from spindle.flows.flow import Flow

FOLDER = "flows"
ENDINGS = tuple(FORMATS)
MAX_FILES = 2000

FindTool = Callable[[str], Awaitable["Tool"]]


class Library:
    def __init__(self, root: Path, folder: str = FOLDER) -> None:
        self._root = root
        self.folder = root / folder

    def files(self) -> list[Path]:
        if not self.folder.is_dir():
            return []
        found = (path for path in self.folder.rglob("*") if path.suffix.lower() in ENDINGS)
        return sorted(path for path in found if not path.name.startswith(".") and path.is_file())[:MAX_FILES]

    def place(self, path: Path) -> str:
        return str(path.relative_to(self._root)) if path.is_relative_to(self._root) else str(path)

    def load(self, path: Path) -> Loaded:
        """A flow without a name of its own has that of its file."""
        from dataclasses import replace

        loaded = read_file(path, self.place(path))
        if not loaded.definition.name:
            loaded = replace(loaded, definition=replace(loaded.definition, name=path.stem))
        return loaded

    def all(self) -> Iterator[tuple[Path, Loaded | BrokenFlowError]]:
        for path in self.files():
            try:
                yield path, self.load(path)
            except BrokenFlowError as error:
                yield path, error

    def find(self, name: str) -> Loaded | None:
        """The saved flow of that name; raises BrokenFlowError when its own file is broken."""
        named = [path for path in self.files() if path.stem == name]
        for path in named:
            loaded = self.load(path)
            if loaded.definition.name == name:
                return loaded
        for path, loaded in self.all():
            if path not in named and isinstance(loaded, Loaded) and loaded.definition.name == name:
                return loaded
        return None

    def names(self) -> list[str]:
        return [loaded.definition.name for _, loaded in self.all() if isinstance(loaded, Loaded)]


def is_pipe(text: str) -> bool:
    return ">>" in text or len(text.split()) > 1


def saved(text: str, library: Library, known: Mapping[str, Flow]) -> Loaded | Flow | None:
    """The flow of a file, one that the program gave, or one of the library's; None: there is none."""
    if is_pipe(text):
        return None
    path = Path(text)
    if path.suffix.lower() in ENDINGS:
        return library.load(path)
    return known[text] if text in known else library.find(text)


async def meant(text: str, library: Library, find_tool: FindTool, known: Mapping[str, Flow]) -> Loaded | Flow:
    """What a user means: a pipe of tools, a file, a saved flow, one that the program gave, or one tool."""
    from spindle.flows.text.pipe import read_pipe

    found = saved(text, library, known)
    if found is not None:
        return found
    if not is_pipe(text):
        try:
            await find_tool(text)
        except NotFoundError as error:
            near = suggest(text, [*library.names(), *known])
            hint = f"did you mean {near!r}?" if near else error.hint
            raise NotFoundError(f"there is neither a flow nor a tool {text!r}", hint=hint) from None
    return await read_pipe(text, find_tool)
