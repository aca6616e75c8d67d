"""The same call from Python: async, then blocking."""

import asyncio
from pathlib import Path

import spindle

WORKSPACE = Path(__file__).parent / "workspace"


async def main() -> None:
    async with spindle.open(WORKSPACE) as s:
        result = await s.call("divide", a=84, b=2)
        print("async:", result.value)


asyncio.run(main())

with spindle.open(WORKSPACE) as s:
    print("blocking:", s.call("divide", a=84, b=2).value)
