"""OpenAgents' collector: the tools of a network's mods and of a workspace, under unique names."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from spindle.compat.openagents.loaders import AgentTool, EventToolLoader, WorkspaceToolLoader

logger = logging.getLogger("spindle")


class NetworkToolCollector:
    """Collects the tools of mods (`network.mods`, each with `get_tools()`), of `tools/` and of `events/`."""

    def __init__(self, network: Any = None, workspace_path: str | Path | None = None) -> None:
        self._network = network
        self._loaders: list[tuple[str, WorkspaceToolLoader | EventToolLoader]] = []
        if workspace_path is not None:
            self._loaders = [
                ("workspace", WorkspaceToolLoader(workspace_path)),
                ("event", EventToolLoader(workspace_path, network)),
            ]
        self._tools: dict[str, AgentTool] | None = None

    def collect_all_tools(self) -> list[AgentTool]:
        """Returns all tools. Raises ValueError if two have one name."""
        found: dict[str, AgentTool] = {}
        origins: dict[str, str] = {}
        for origin, tools in self._origins():
            for tool in tools:
                if tool.name in found:
                    raise ValueError(
                        f"Tool name conflict: {tool.name!r} comes from {origins[tool.name]!r} and from "
                        f"{origin!r}; rename one of them"
                    )
                found[tool.name], origins[tool.name] = tool, origin
        self._tools = found
        return list(found.values())

    def filter_tools(
        self, exposed_tools: Iterable[str] | None = None, excluded_tools: Iterable[str] | None = None
    ) -> list[AgentTool]:
        """Returns the exposed tools, or all, without the excluded ones. A name that no tool has is logged."""
        if self._tools is None:
            self.collect_all_tools()
        tools = self._tools or {}
        exposed = self._known("exposed_tools", exposed_tools, tools)
        excluded = self._known("excluded_tools", excluded_tools, tools) or set()
        return [
            tool
            for name, tool in tools.items()
            if (exposed is None or name in exposed) and name not in excluded
        ]

    def to_mcp_tools_filtered(
        self, exposed_tools: Iterable[str] | None = None, excluded_tools: Iterable[str] | None = None
    ) -> list[dict[str, Any]]:
        """Returns the filtered tools as MCP lists them."""
        return [
            {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
            for tool in self.filter_tools(exposed_tools, excluded_tools)
        ]

    def close(self) -> None:
        """Ends the workspace's tools: they can no longer be called."""
        for _, loader in self._loaders:
            loader.close()

    def _origins(self) -> Iterable[tuple[str, list[AgentTool]]]:
        mods: Mapping[str, Any] = getattr(self._network, "mods", None) or {}
        for name, mod in mods.items():
            yield f"mod:{name}", [_agent_tool(tool) for tool in mod.get_tools()]
        for origin, loader in self._loaders:
            yield origin, loader.load_tools()

    @staticmethod
    def _known(key: str, names: Iterable[str] | None, tools: Mapping[str, AgentTool]) -> set[str] | None:
        if names is None:
            return None
        wanted = set(names)
        for name in sorted(wanted - tools.keys()):
            logger.warning("%s names %r, which is no tool", key, name)
        return wanted


def _agent_tool(tool: Any) -> AgentTool:
    """A mod's tool, of whatever class it is."""
    if isinstance(tool, AgentTool):
        return tool
    return AgentTool(tool.name, tool.description, tool.input_schema, tool.func)
