"""The work of a run that connects a user to a source: it waits for their consent, and lists the tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spindle.domain.call import Result
from spindle.ports.store import ToolFilter

if TYPE_CHECKING:
    from spindle.calls.caller import CallOptions
    from spindle.calls.host import CallHost
    from spindle.calls.permissions import Visible
    from spindle.catalog.catalog import Catalog
    from spindle.domain.json_schema import JsonObject

KIND: Final = "connect"
SHOWN: Final = 20
"""Names of tools in the text of a result."""


class Connecting:
    """Connects users to sources of an open workspace."""

    def __init__(self, catalog: Catalog, visible: Visible) -> None:
        self._catalog = catalog
        self._visible = visible

    async def work(self, given: JsonObject, host: CallHost, options: CallOptions) -> Result:
        """Executes a run, from its start or once the user has given their consent."""
        source, principal = str(given["source"]), options.principal
        await self._catalog.connect(source, principal)
        found = await self._catalog.tools(ToolFilter(source=source))
        names = [tool.name for tool in found if not tool.held and self._visible(principal, tool.name)]
        listed = ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")
        text = f"{source} is connected. Its tools: {listed}" if names else f"{source} is connected."
        return Result.of_value({"source": source, "tools": names}, text)
