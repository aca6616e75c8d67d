"""Where the CPU of a call through `spindle serve` goes: µs of each part, with 16 clients at once.

`python parts.py [SRC]` shows the same for another checkout, whose `src` is given, such as an older one.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from http_client import mcp_call
from serving import ECHO, ENVIRONMENT, HERE, Gateway, free_port
from table import Row, table

CLIENTS = 16
PATIENCE = 60.0


async def _counts(gateway: Gateway, file: Path) -> dict[str, int]:
    """What was counted since the last time."""
    assert gateway.process is not None
    file.unlink(missing_ok=True)
    gateway.process.send_signal(signal.SIGUSR1)
    until = time.monotonic() + PATIENCE
    while not file.exists():
        if time.monotonic() > until:
            raise SystemExit("the server does not tell what it counted")
        await asyncio.sleep(0.01)
    return json.loads(file.read_text())


async def _measure(calls: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "spindle.toml").write_text(
            f"[sources.echo]\ncommand = {json.dumps(ECHO)}\nmax_concurrency = 64\n"
        )
        port, file = free_port(), Path(folder, "counts")
        serve = [sys.executable, str(HERE / "sampled.py"), str(file)]
        serve += ["-w", folder, "serve", "--http", "--port", str(port)]
        gateway = Gateway("spindle serve", serve, f"http://127.0.0.1:{port}/mcp", mcp_call("echo_echo"))
        try:
            await gateway.start()
            await gateway.round(CLIENTS, 100)
            await _counts(gateway, file)
            await gateway.round(CLIENTS, calls // CLIENTS)
            found = await _counts(gateway, file)
        finally:
            gateway.stop()
    cpu = gateway.found[CLIENTS][-1][2]
    seen = sum(found.values())
    rows = [
        Row("parts", part, cpu * count / seen, "µs")
        for part, count in sorted(found.items(), key=lambda item: -item[1])
    ]
    return [*rows, Row("parts", f"CPU of a call in all ({seen:,} samples)", cpu, "µs")]


def parts(quick: bool) -> list[Row]:
    return asyncio.run(_measure(8_000 if quick else 60_000))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        ENVIRONMENT["PYTHONPATH"] = os.path.abspath(sys.argv[1])
    print(table(parts(quick=False)))
