"""The saved flows of a workspace: the files in `flows/`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from spindle.errors import NotFoundError
from spindle.flows.problems import BrokenFlowError
from spindle.flows.program_words import find_tool
from spindle.flows.text.files import FORMATS, Loaded, read_file

if TYPE_CHECKING:
    from spindle.domain.tool import Tool
    from spindle.flows.definition import FlowDefinition, NodeDefinition

FOLDER = "flows"
ENDINGS = tuple(FORMATS)
MAX_FILES = 2000


class Library:
    """The saved flows of one folder."""

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
        """Reads a flow; one without a name of its own has that of its file."""
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
        """Returns the saved flow of that name, or None. Raises BrokenFlowError if its own file is broken."""
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
    """True if the text is a line of tools, not a name or a file."""
    return ">>" in text or len(text.split()) > 1


async def with_fingerprints(
    definition: FlowDefinition, find: Callable[[str], Awaitable[Tool]]
) -> FlowDefinition:
    """Returns the flow with each tool's full name and fingerprint, as it is saved. Raises NotFoundError."""

    async def pinned(node: NodeDefinition) -> NodeDefinition:
        if node.flow is not None:
            return replace(node, flow=await with_fingerprints(node.flow, find))
        if node.tool is None:
            return node
        try:
            tool = await find_tool(node, find)
        except NotFoundError as error:
            message = f"node {node.id!r}: {error.message}"
            raise NotFoundError(message, tool=node.tool, **error.way_out) from None
        return replace(node, tool=tool.name, fingerprint=tool.fingerprint)

    return replace(definition, nodes=tuple([await pinned(node) for node in definition.nodes]))
