"""A server that does steps, and writes down each before it does it. Standard library only.

counting_http.py FILE SECONDS: says its port on stdout; each step takes about so many seconds. FILE gets a
line of JSON for each, which would survive the end of this process.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys

LOG = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
SECONDS = float(sys.argv[2])
TOKENS = itertools.count(1)


async def step(asked: dict) -> dict:
    token = f"{asked['run']}.{asked['n']}.{next(TOKENS)}"
    os.write(LOG, json.dumps({**asked, "token": token}).encode() + b"\n")
    os.fsync(LOG)
    await asyncio.sleep(SECONDS)
    return {"n": asked["n"], "token": token}


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
            body = await reader.readexactly(int(fields[b"content-length"]))
            answer = json.dumps(await step(json.loads(body))).encode()
            kind = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
            writer.write(kind + b"content-length: %d\r\n\r\n" % len(answer) + answer)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()  # whoever asked was killed, or has ended


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


asyncio.run(main())
