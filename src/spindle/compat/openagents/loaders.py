"""OpenAgents' loaders: the tools of the folders `tools/` and `events/` of a workspace."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from spindle.calls.options import CallOptions
from spindle.compat.private import Background, opened, output_of
from spindle.ports.store import ToolFilter

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.tool import Tool

logger = logging.getLogger("spindle")

OPTIONS = CallOptions(raise_tool_errors=True)


@dataclass(frozen=True, slots=True)
class AgentTool:
    """A tool with the function that does it."""

    name: str
    description: str
    input_schema: JsonObject
    func: Callable[..., Any] = field(repr=False)

    async def execute(self, /, **arguments: Any) -> Any:
        """Calls the tool with arguments by name and returns its output."""
        done = self.func(**arguments)
        return await done if inspect.isawaitable(done) else done


@dataclass(frozen=True, slots=True)
class NetworkEvent:
    """An event that a tool emitted, as a network is given it."""

    event_name: str
    payload: JsonObject
    source_id: str = "spindle"


class EventNetwork(Protocol):
    """A network that takes the events of tools."""

    def emit_event(self, event: NetworkEvent, /) -> Awaitable[Any] | None:
        """Takes an event."""
        ...


class _FolderLoader:
    """Loads the tools of one folder, which may be missing. What cannot be read is logged and left out."""

    def __init__(self, workspace_path: str | Path, folder: str, kind: str) -> None:
        self.workspace_path = Path(workspace_path)
        self._folder = folder
        self._table = {"kind": kind, "path": folder, "prefix": False}
        self._background: Background | None = None

    def load_tools(self) -> list[AgentTool]:
        """Returns the tools of the folder as they are now. They may be called from any event loop, and run on
        their own. Raises ValueError if two have one name."""
        if not (self.workspace_path / self._folder).is_dir():
            return []
        if self._background is None:
            sources = {self._folder: self._table}
            self._background = Background(opened(self.workspace_path.resolve(), sources, note=logger.error))
        background = self._background
        return [self._agent_tool(tool, background) for tool in background.wait(_found)]

    def close(self) -> None:
        """Ends the tools that were loaded: they can no longer be called."""
        if self._background is not None:
            self._background.close()
            self._background = None

    def _agent_tool(self, tool: Tool, background: Background) -> AgentTool:
        async def call(**arguments: Any) -> Any:
            return output_of(await background.run(lambda app: app.call(tool.name, arguments, OPTIONS)))

        return AgentTool(tool.name, tool.description, tool.input_schema, call)


class WorkspaceToolLoader(_FolderLoader):
    """Loads the functions marked with `@tool` in the files of the folder `tools/`."""

    def __init__(self, workspace_path: str | Path) -> None:
        super().__init__(workspace_path, "tools", "python")


class EventToolLoader(_FolderLoader):
    """Loads the operations with `x-agent-tool` of the AsyncAPI documents in the folder `events/`. Calling one
    emits its event to the server that the document names, or else to listeners in this process, and to the
    `network` if one is given."""

    def __init__(self, workspace_path: str | Path, network: EventNetwork | None = None) -> None:
        super().__init__(workspace_path, "events", "events")
        self._network = network

    def _agent_tool(self, tool: Tool, background: Background) -> AgentTool:
        made, network = super()._agent_tool(tool, background), self._network
        if network is None or tool.spec.metadata.get("action") != "send":
            return made
        if not callable(getattr(network, "emit_event", None)):
            raise TypeError(
                f"the network cannot be given the events of {tool.name!r}: it has no method emit_event(event)"
            )

        # The output of a question is its answer, which came on another channel.
        asked = tool.spec.metadata.get("address") if "reply" in tool.spec.metadata else None

        async def call_and_tell(**arguments: Any) -> Any:
            output: Any = await made.func(**arguments)
            taken = network.emit_event(NetworkEvent(str(asked or output["channel"]), arguments))
            if inspect.isawaitable(taken):
                await taken
            return output

        return AgentTool(made.name, made.description, made.input_schema, call_and_tell)


async def _found(app: Spindle) -> list[Tool]:
    """Reads the one folder again and returns its tools."""
    for report in await app.sync():
        if report.source in app.catalog.conflicts:
            raise ValueError(f"Tool name conflict: {app.catalog.conflicts[report.source].message}")
        if report.error is not None:
            logger.error("%s: %s", report.source, report.error["message"])
    return await app.catalog.whole_tools(ToolFilter())
