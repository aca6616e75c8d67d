"""The flows of one folder, read when they are first needed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.domain.tool import ToolSpec
from spindle.errors import FlowError, NotFoundError
from spindle.flows.build import build
from spindle.flows.check.before import refuse_broken
from spindle.flows.execution import execute
from spindle.flows.flow import Flow
from spindle.flows.library import Library
from spindle.flows.node import BaseNode
from spindle.flows.problems import BrokenFlowError
from spindle.flows.signature import input_schema, output_schema
from spindle.flows.trace import NodeEvent, observer
from spindle.remedies import Remedy
from spindle.sources.code.modules import FolderModules
from spindle.sources.code.session import CodeSession
from spindle.sources.flows.node_tool import call_node, spec_of
from spindle.threads import in_thread, stdout_to_stderr

if TYPE_CHECKING:
    from spindle.domain.call import Call, Result
    from spindle.domain.tool import Tool
    from spindle.ports.source import Note
    from spindle.sources.flows.config import FlowsConfig

Found = Flow | type[BaseNode]


class FlowsSession(CodeSession[Found]):
    """The flows and nodes of one folder, read and ready to be called."""

    def __init__(
        self, name: str, config: FlowsConfig, root: Path, note: Note, loaded: dict[str, str] | None = None
    ) -> None:
        super().__init__(name, root, note, loaded)
        self._library = Library(root, config.path)

    async def invoke(self, tool: Tool, call: Call) -> Result:
        found = await self._find(tool)
        if found is None:
            raise NotFoundError(f"{tool.name} is no longer defined", remedy=Remedy("sync"))
        assert call.host is not None
        if isinstance(found, type):
            return await call_node(found, call.arguments, call.host, self._root)
        await refuse_broken(found, call.host.find, call.arguments, require=call.host.require)
        reports = _Reports(call, found)
        token = observer.set(reports.heard)
        try:
            return await execute(found, dict(call.arguments), call.host, root=self._root)
        finally:
            observer.reset(token)
            await reports.settle()

    # --- loading

    async def _load(self) -> list[tuple[ToolSpec, Found]]:
        with stdout_to_stderr():
            return await in_thread(lambda: list(self._in_folder()), f"spindle-load-{self._name}")

    def _in_folder(self) -> Iterable[tuple[ToolSpec, Found]]:
        for path, loaded in self._library.all():
            place = self._library.place(path)
            if isinstance(loaded, BrokenFlowError):
                self._note(f"a flow is left out: {loaded.message}")
                continue
            try:
                flow = build(loaded.definition, positions=loaded.positions, place=loaded.place)
            except FlowError as error:
                self._note(f"a flow is left out: {place}: {error.message}")
            else:
                yield _spec(flow, place), flow
        if self._library.folder.is_dir():
            for path, module in FolderModules(self._library.folder).load_all():
                place = self._library.place(Path(path))
                if isinstance(module, str):
                    self._note(f"{place} cannot be imported and is left out: {module}")
                else:
                    yield from self._in_module(vars(module), module.__name__, place)

    def _in_module(self, names: dict[str, Any], module: str, place: str) -> Iterable[tuple[ToolSpec, Found]]:
        for name, value in names.items():
            if isinstance(value, Flow):
                if not value.name:
                    value.name = name
                yield _spec(value, place), value
            elif isinstance(value, type) and _is_offered(value, name, module):
                yield spec_of(value, place, self._note), value
            elif (theirs := _of_pocketflow(value, module)) is not None:
                self._note(
                    f"{place}: {name} is left out, as it is a {theirs} of the package pocketflow; "
                    f"`from spindle.compat.pocketflow import {theirs}` makes it one that runs here"
                )


def _is_offered(kind: type[Any], name: str, module: str) -> bool:
    """True for a node class that this file defines, with a docstring."""
    is_own = issubclass(kind, BaseNode) and not issubclass(kind, Flow) and kind.__module__ == module
    return is_own and bool(kind.__doc__) and not name.startswith("_")


def _of_pocketflow(value: Any, module: str) -> str | None:
    """Returns the class of the package pocketflow that a flow, or a node class of this file, is built on."""
    kind: type[Any] = value if isinstance(value, type) else type(value)
    if isinstance(value, type) and kind.__module__ != module:
        return None  # imported
    return next((base.__name__ for base in kind.__mro__ if base.__module__ == "pocketflow"), None)


def _spec(flow: Flow, place: str) -> ToolSpec:
    return ToolSpec(
        flow.name,
        flow.description,
        input_schema(flow.inputs),
        output_schema(flow.outputs),
        place=place,
    )


class _Reports:
    """Tells the caller of a flow which node has ended."""

    def __init__(self, call: Call, flow: Flow) -> None:
        self._call = call
        self._total = sum(1 for _ in flow.nodes())
        self._done = 0
        self._waiting: list[asyncio.Future[None]] = []

    def heard(self, event: NodeEvent) -> None:
        if event.kind == "ended" and self._call.on_progress is not None:
            self._done += 1
            total = self._total if self._done <= self._total else None
            said = self._call.on_progress(self._done, total, event.node)
            self._waiting.append(asyncio.ensure_future(said))

    async def settle(self) -> None:
        await asyncio.gather(*self._waiting, return_exceptions=True)
