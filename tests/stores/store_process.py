"""A process that uses a store, for tests of what several processes do to it.

store_process.py STORE open            open the store once the line `go` arrives
store_process.py STORE save NAME N     save N records, printing each key once it is saved
store_process.py STORE sync NAME N     replace the tools of source NAME, N times
"""

from __future__ import annotations

import asyncio
import sys

from spindle.domain.call import CallRecord
from spindle.domain.tool import Tool, ToolSpec
from spindle.ports.store import SourceState, StoredTool
from spindle.stores.open import open_store


async def main(address: str, work: str, name: str = "", count: str = "0") -> None:
    print("ready", flush=True)
    sys.stdin.readline()
    store = await open_store(address)
    try:
        for number in range(int(count)):
            if work == "save":
                key = f"{name}-{number:06}"
                await store.save_call(CallRecord(key, "a.b", "a", "local", {"n": number}, "ok", 1.0, 0.1, 1))
                print(key, flush=True)
            else:
                spec = ToolSpec(f"tool{number % 7}")
                tool = Tool(f"{name}.tool{number % 7}", name, "mcp", spec, spec.fingerprint)
                state = SourceState(name, "mcp", str(number), float(number))
                await store.replace_tools(state, [StoredTool(tool.name, tool)])
    finally:
        await store.close()
    print("done", flush=True)


asyncio.run(main(*sys.argv[1:]))
