"""The files of saved flows, as the admin API and the console read, judge, draw and write them."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from spindle import settings
from spindle.domain.visible import visible
from spindle.errors import (
    ConfigurationError,
    FlowError,
    Interruption,
    InvalidArgumentsError,
    NotFoundError,
    SpindleError,
    StoreError,
)
from spindle.flows.check.check import check
from spindle.flows.draw.pictures import svg
from spindle.flows.problems import BrokenFlowError, Problem
from spindle.flows.text.files import FORMATS, MAX_SIZE, Loaded, read
from spindle.threads import in_thread

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.catalog.naming import Sees
    from spindle.documents.text import Format
    from spindle.domain.identity import Principal
    from spindle.domain.tool import Tool
    from spindle.flows.definition import FlowDefinition, NodeDefinition

SOURCE: Final = "flows"
MAX_NODES: Final = 500
MAX_EDGES: Final = 2000
"""Of flows that are judged here: checking takes the square of their number."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}\.(yaml|yml|json)")
_NEW: Final = "letters, digits, `-` and `_`, and the ending .yaml, .yml or .json"


@dataclass(frozen=True, slots=True)
class FlowText:
    """A file as it is now."""

    file: str
    """Its name below the folder of flows."""
    place: str
    """Its name below the workspace, as problems say it."""
    text: str | None
    """None if it cannot be shown as a text; `problems` say why."""
    version: str
    """Differs after every change."""
    problems: tuple[Problem, ...] = ()

    @property
    def format(self) -> Format:
        """The language that it is written in."""
        return FORMATS[Path(self.file).suffix.lower()]


@dataclass(frozen=True, slots=True)
class Judged:
    """The text of a flow, read and checked."""

    problems: tuple[Problem, ...]
    definition: FlowDefinition | None = None
    """None if it cannot be read."""

    @property
    def errors(self) -> int:
        """The number of problems with which it does not run."""
        return sum(problem.severity == "error" for problem in self.problems)


class ChangedMeanwhileError(SpindleError):
    """A file that somebody else has changed, so that nothing was written. `now` is what it is; None: it is
    gone."""

    def __init__(self, place: str, now: FlowText | None) -> None:
        what = "was changed" if now is not None else "was removed"
        super().__init__(
            f"{place} {what} by somebody else since you opened it; nothing was saved",
            hint="look at what it is now, and save again with its version, or without one if it is gone",
        )
        self.now = now


class FlowFiles:
    """The files of saved flows of an open workspace."""

    def __init__(self, app: Spindle) -> None:
        self._app = app
        self._judging = asyncio.Lock()

    # --- reading

    def files(self) -> list[str]:
        """The names of all files, below the folder of flows."""
        library = self._app.flows.library
        return [path.relative_to(library.folder).as_posix() for path in library.files()]

    async def read(self, file: str) -> FlowText:
        """Returns a file. Raises NotFoundError for one that is no file of a flow."""
        return await in_thread(lambda: self._read(self._path(file)), "reading a flow")

    def _path(self, file: str) -> Path:
        """The file of this name, if it is one of the library's: no other file is ever opened."""
        library = self._app.flows.library
        for path in library.files():
            if path.relative_to(library.folder).as_posix() == file:
                return path
        raise NotFoundError(f"there is no flow {visible(file[:200])!r}")

    def _read(self, path: Path) -> FlowText:
        library = self._app.flows.library
        file, place = path.relative_to(library.folder).as_posix(), library.place(path)

        def unshown(why: str, version: str = "") -> FlowText:
            return FlowText(file, place, None, version, (Problem("error", why, None, place),))

        if not path.resolve().is_relative_to(library.folder.resolve()):
            return unshown("is a link to a file elsewhere, which is not shown here")
        try:
            with path.open("rb") as opened:
                data = opened.read(MAX_SIZE + 1)
        except OSError as error:
            return unshown(f"cannot be read: {error.strerror or error}")
        version = hashlib.sha256(data).hexdigest()
        if len(data) > MAX_SIZE:
            return unshown(f"is larger than {MAX_SIZE} bytes, the limit for a flow", version)
        try:
            return FlowText(file, place, data.decode("utf-8"), version)
        except UnicodeDecodeError:
            return unshown("is no text in UTF-8", version)

    # --- judging

    async def judge(self, text: str, format: Format, place: str, principal: Principal, sees: Sees) -> Judged:
        """Reads and checks a text, with the tools that this principal sees. One at a time: it is work for the
        processor, done beside the server's own."""
        async with self._judging:
            try:
                loaded = await in_thread(lambda: read(text, format, place), "reading a flow")
            except BrokenFlowError as error:
                return Judged(error.problems)
            nodes = list(_nodes(loaded.definition))
            edges = _edges(loaded.definition)
            if len(nodes) > MAX_NODES or edges > MAX_EDGES:
                message = (
                    f"it has {len(nodes)} nodes and {edges} edges, too many to be checked here, where"
                    f" {MAX_NODES} and {MAX_EDGES} are"
                )
                hint = "put parts of it into flows of their own"
                return Judged((Problem("error", message, hint, place),), loaded.definition)
            tools = await self._tools(nodes, principal, sees)
            problems = await in_thread(lambda: asyncio.run(_checked(loaded, tools)), "checking a flow")
            return Judged(tuple(problems), loaded.definition)

    async def judge_file(self, folder: str, place: str, principal: Principal, sees: Sees) -> Judged:
        """Judges a file as it is, by its name below the workspace, whose `folder` of flows it is in."""
        found = await self.read(place.removeprefix(f"{folder}/"))
        if found.text is None:
            return Judged(found.problems)
        return await self.judge(found.text, found.format, found.place, principal, sees)

    async def _tools(
        self, nodes: list[NodeDefinition], principal: Principal, sees: Sees
    ) -> dict[str, Tool | BaseException]:
        found: dict[str, Tool | BaseException] = {}
        for name in dict.fromkeys(node.tool for node in nodes if node.tool is not None):
            try:
                found[name] = await self._app.catalog.find(name, principal, sees)
            except StoreError:
                raise
            except (SpindleError, Interruption) as error:
                found[name] = error
        return found

    @staticmethod
    async def draw(definition: FlowDefinition) -> str:
        """Returns a picture as SVG, with the styles of the page that it is for. Raises FlowError for a flow
        that is too large for one."""
        if sum(1 for _ in _nodes(definition)) > MAX_NODES:
            raise FlowError(f"flows of more than {MAX_NODES} nodes are not drawn here")
        return await in_thread(lambda: svg(definition, with_style=False), "drawing a flow")

    # --- writing

    async def save(self, file: str, text: str, version: str | None) -> FlowText:
        """Writes a file and puts it in force. `version` is that of the file as it was read; None: it must not
        be there yet. Raises ChangedMeanwhileError if it is another now."""
        if len(text.encode()) > MAX_SIZE:
            raise InvalidArgumentsError(f"larger than {MAX_SIZE} bytes, the limit for a flow")
        if version is None:
            await self._refuse_name(file)
        await self._app.reload()  # raises if the workspace is no longer one that may run
        saved = await in_thread(lambda: self._write(file, text, version), "saving a flow")
        await self._app.reload()
        if SOURCE in self._app.catalog.sources.names:
            await self._app.sync(SOURCE)
        return saved

    async def _refuse_name(self, file: str) -> None:
        """Raises an error if a new flow cannot have this name."""
        if _NAME.fullmatch(file) is None:
            raise InvalidArgumentsError(
                f"{visible(file[:200])!r} cannot be a flow's file", hint=f"use {_NEW}"
            )
        name = Path(file).stem
        try:
            tool = await self._app.show(name)
        except (NotFoundError, Interruption):
            return
        if tool.name == name and tool.kind != "flows":
            raise ConfigurationError(
                f"there is already a tool {name!r} (of {tool.source})", hint="choose another name"
            )

    def _write(self, file: str, text: str, version: str | None) -> FlowText:
        from spindle.settings.edit import locked, replace_file

        library = self._app.flows.library
        with locked(self._app.settings.root / settings.FILE_NAME):
            # Under the lock no other Spindle writes. An editor may, between the look and the write: no
            # program can keep it from that.
            if version is None:
                path = library.folder / file
                if path.exists() or path.is_symlink():
                    raise ChangedMeanwhileError(library.place(path), self._read(path))
                library.folder.mkdir(parents=True, exist_ok=True)
            else:
                try:
                    path = self._path(file)
                except NotFoundError:
                    raise ChangedMeanwhileError(f"{SOURCE}/{visible(file[:200])}", None) from None
                now = self._read(path)
                if now.text is None:
                    raise ConfigurationError(str(now.problems[0]), hint="edit it where it is")
                if now.version != version:
                    raise ChangedMeanwhileError(now.place, now)
            replace_file(path, text)
            return self._read(path)


_of: WeakKeyDictionary[Spindle, FlowFiles] = WeakKeyDictionary()


def files_of(app: Spindle) -> FlowFiles:
    """Returns the files of a workspace: one for all who ask, so that one text is judged at a time."""
    found = _of.get(app)
    if found is None:
        found = _of[app] = FlowFiles(app)
    return found


def tools_in(definition: FlowDefinition) -> set[str]:
    """Returns the tools that a flow names, also in flows inside of it."""
    return {node.tool for node in _nodes(definition) if node.tool is not None}


async def _checked(loaded: Loaded, tools: dict[str, Tool | BaseException]) -> list[Problem]:
    async def find(name: str) -> Tool:
        found = tools[name]
        if isinstance(found, BaseException):
            raise found
        return found

    return await check(loaded.definition, find, loaded.positions, loaded.place, surface="http")


def _nodes(definition: FlowDefinition) -> Iterator[NodeDefinition]:
    for node in definition.nodes:
        yield node
        if node.flow is not None:
            yield from _nodes(node.flow)


def _edges(definition: FlowDefinition) -> int:
    inner = (_edges(node.flow) for node in definition.nodes if node.flow is not None)
    return len(definition.edges) + sum(inner)
