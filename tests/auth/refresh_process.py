"""Another process that shares a store: opens it, says so, and makes its calls when told to."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

import spindle
from spindle.calls.caller import Clock
from spindle.domain.identity import LOCAL
from spindle.settings import Settings

options = json.loads(sys.argv[1])


async def main() -> None:
    source = {"url": options["url"], "auth": {"type": "oauth"}, "max_concurrency": 50}
    settings = Settings(Path.cwd(), {"sources": {"work": source}, "store": options["store"]})
    clock = Clock(now=lambda: time.time() + options["offset"])
    environ = {"SPINDLE_KEY": options["key"]}
    async with spindle.open(settings=settings, clock=clock, environ=environ) as app:
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        results = await asyncio.gather(*(app.call("work.whoami") for _ in range(options["calls"])))
        subjects = sorted({json.loads(result.text)["subject"] for result in results})
        token = await app.auth.token("work", app.catalog.sources.config("work"), LOCAL)
        print(json.dumps({"subjects": subjects, "token": token}))


asyncio.run(main())
