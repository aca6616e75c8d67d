"""UTCP's own client in a process of its own: it takes over the logging of whoever imports it.

Reads `{"templates": [...], "variables": {...}, "calls": [[tool, arguments], ...]}` from its input and prints
what the client returns, bytes as text."""

import asyncio
import json
import logging
import sys
from typing import Any

from utcp.data.call_template import CallTemplateSerializer
from utcp.utcp_client import UtcpClient


def readable(value: Any) -> Any:
    return {"bytes": value.hex()} if isinstance(value, bytes) else value


async def main() -> None:
    logging.disable(logging.CRITICAL)
    asked = json.load(sys.stdin)
    client = await UtcpClient.create(config={"variables": asked["variables"]})
    registered = []
    for template in asked["templates"]:
        result = await client.register_manual(CallTemplateSerializer().validate_dict(template))
        registered.append({"success": result.success, "tools": [tool.name for tool in result.manual.tools]})
    results = []
    for tool, arguments in asked["calls"]:
        try:
            results.append({"value": readable(await client.call_tool(tool, arguments))})
        except Exception as error:
            results.append({"error": f"{type(error).__name__}: {error}"})
    json.dump({"registered": registered, "results": results}, sys.stdout)


asyncio.run(main())
