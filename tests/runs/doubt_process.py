"""One process that charges cards, for tests that kill it while it does.

doubt_process.py WORKSPACE flow | agent MODEL | resume TOKEN: says how the work ended, in a line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys

import spindle
from spindle import Agent


async def main(workspace: str, what: str, further: str = "") -> None:
    async with spindle.open(workspace) as app:
        match what:
            case "flow":
                await app.run_flow("pay")
            case "agent":
                await Agent(app, further, approve=()).run("charge the card")
            case _:
                await app.resume(further, True)
    print(json.dumps("ended"), flush=True)


asyncio.run(main(*sys.argv[1:]))
