"""LiteLLM and ContextForge, each in an environment of its own. They run with one worker, without keys, logs
or telemetry, and with those of their settings that were found to be fastest."""

from __future__ import annotations

import json
import secrets
import sys
from dataclasses import dataclass, field
from pathlib import Path

from http_client import Connection, mcp_call
from serving import SCRIPTS, Gateway

LITELLM = "LiteLLM"
CONTEXTFORGE = "ContextForge"
_TOOL = "up-echo"
"""What both call the tool `echo` of the server `up`."""


@dataclass
class Registering(Gateway):
    """One that is told of the server over its own API, as soon as it listens."""

    upstream: str = ""
    _registered: bool = field(default=False, init=False)

    async def connect(self) -> Connection:
        if not self._registered:
            admin = Connection(self.url)
            await admin.open()
            said = {"name": "up", "url": self.upstream, "transport": "STREAMABLEHTTP"}
            status, _, data = await admin.post(said, "/v1/gateways")
            await admin.close()
            if status >= 400:
                raise SystemExit(f"{self.name} does not take the server: {status} {data[:300]!r}")
            self._registered = True
        return await super().connect()


def litellm(program: str, folder: Path, port: int, url: str) -> Gateway:
    settings = {
        "mcp_servers": {"up": {"url": url, "transport": "http", "allow_all_keys": True}},
        "general_settings": {"dangerously_permit_weak_or_unset_master_key": True},
    }
    file = folder / "litellm.yaml"
    file.write_text(json.dumps(settings))  # which YAML includes
    return Gateway(
        LITELLM,
        [program, "--config", str(file), "--host", "127.0.0.1", "--port", str(port)],
        f"http://127.0.0.1:{port}/mcp",
        mcp_call(_TOOL),
        environment={
            "LITELLM_LOG": "ERROR",
            "LITELLM_MODE": "PRODUCTION",
            "LITELLM_TELEMETRY_DISABLED": "true",
            # The prices of models come with the package, and need not be fetched.
            "LITELLM_LOCAL_MODEL_COST_MAP": "true",
        },
    )


def contextforge(program: str, folder: Path, port: int, url: str) -> Gateway:
    return Registering(
        CONTEXTFORGE,
        [program, "--host", "127.0.0.1", "--port", str(port), "--no-access-log", "--log-level", "error"],
        f"http://127.0.0.1:{port}/mcp",
        mcp_call(_TOOL),
        upstream=url,
        environment={
            "DATABASE_URL": f"sqlite:///{folder / 'contextforge.db'}",
            "TMPDIR": str(folder),  # where it puts its locks
            "CACHE_TYPE": "memory",
            "LOG_LEVEL": "ERROR",
            "AUTH_REQUIRED": "false",
            "ALLOW_UNAUTHENTICATED_ADMIN": "true",
            "JWT_SECRET_KEY": secrets.token_hex(32),
            "AUTH_ENCRYPTION_SECRET": secrets.token_hex(32),
            "SSRF_ALLOW_LOCALHOST": "true",
            "RATE_LIMITING_ENABLED": "false",
            # Without it each call opens a session with the server: a quarter of the calls a second.
            "USE_STATEFUL_SESSIONS": "true",
        },
    )


def installed(folder: str, ports: tuple[int, int], url: str) -> list[Gateway]:
    """Those of them that are there. `make bench` installs both."""
    found: list[Gateway] = []
    environments = SCRIPTS.parent
    for name, make, program, port in (
        (LITELLM, litellm, environments / "litellm" / "bin" / "litellm", ports[0]),
        (CONTEXTFORGE, contextforge, environments / "contextforge" / "bin" / "mcpgateway", ports[1]),
    ):
        if program.exists():
            found.append(make(str(program), Path(folder), port, url))
        else:
            print(f"there is no {name}: `make bench ARGS=upstream` installs it", file=sys.stderr)
    return found
