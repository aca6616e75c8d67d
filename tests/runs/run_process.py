"""One process that works on runs, for tests that kill it. Says what it does on stdout, a line of JSON each.

run_process.py WORKSPACE run TOOL ARGUMENTS      run_process.py WORKSPACE resume TOKEN ANSWER
run_process.py WORKSPACE race TOKEN ANSWER COUNT: resumes so often at once, when a line arrives on stdin
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import spindle
from spindle.errors import SpindleError


def say(what: Any) -> None:
    print(json.dumps(what), flush=True)


def described(outcome: Any) -> dict[str, Any]:
    match outcome:
        case spindle.Finished(result=result):
            return {"finished": result.value}
        case spindle.Paused(run_id=run_id, pauses=pauses):
            return {"paused": [pause.token for pause in pauses], "run": run_id}
        case spindle.Continuing():
            return {"continuing": True}
        case _:
            return {"error": outcome.category}


async def main(workspace: str, command: str, first: str, second: str, *rest: str) -> None:
    async with spindle.open(workspace) as app:
        if command == "run":
            say(described(await app.run(first, json.loads(second))))
        elif command == "resume":
            say(described(await app.resume(first, json.loads(second))))
        else:
            say("ready")
            await asyncio.to_thread(sys.stdin.readline)
            resumes = [app.resume(first, json.loads(second)) for _ in range(int(rest[0]))]
            outcomes = await asyncio.gather(*resumes, return_exceptions=True)
            say([described(outcome) for outcome in outcomes if not isinstance(outcome, OSError)])
        sys.stdin.readline()  # stay until killed or told to end


try:
    asyncio.run(main(*sys.argv[1:]))
except SpindleError as error:
    say({"error": error.category, "message": error.message})
