"""The protocol's own conformance suite against a served workspace: the latest release and the one that
knows 2026-07-28. Every scenario that a revision requires must pass, except those named here."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from mcp_server.conftest import FIXTURES, fixture_source
from servers.running import REPOSITORY, missing
from servers.serving import serve_command

PACKAGES = REPOSITORY / ".node" / "node24" / "node_modules"
NODE = PACKAGES / "node" / "bin" / "node"

# What runs: (package, arguments, the scenarios that may fail with the reason why).
RUNS: dict[str, tuple[str, list[str], dict[str, str]]] = {
    "latest release": ("conformance-latest", ["--suite", "active"], {}),
    "2025-11-25": ("conformance", ["--requirements", "2025-11-25"], {}),
    "2026-07-28": ("conformance", ["--requirements", "2026-07-28"], {}),
}
FEWEST = {"latest release": 28, "2025-11-25": 30, "2026-07-28": 46}
"""Scenarios that must have passed, so that a suite that runs nothing does not look like success."""


def workspace(folder: Path) -> Path:
    shutil.copytree(FIXTURES / "tools", folder / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    source = fixture_source()
    lines = [f"{key} = {json.dumps(value)}" for key, value in source.items()]
    # A call that takes longer is a task, for those scenarios that know tasks.
    serve = ["[serve]", "task_after = 0.5"]
    (folder / "spindle.toml").write_text("\n".join(["[sources.fixture]", *lines, *serve, ""]))
    return folder


@pytest.mark.npm
@pytest.mark.timeout(400)
@pytest.mark.parametrize("run", list(RUNS))
async def test_the_conformance_suite_passes(tmp_path: Path, run: str) -> None:
    package, words, excused = RUNS[run]
    if not NODE.exists():
        missing("the conformance suite is not installed: run `make node`")
    program = PACKAGES / "@modelcontextprotocol" / package / "dist" / "index.js"
    async with serve_command(workspace(tmp_path)) as (url, _):
        suite = await asyncio.create_subprocess_exec(
            str(NODE), str(program), "server", "--url", url, *words, "-o", str(tmp_path / "out"),
            cwd=tmp_path, env={**os.environ, "NO_COLOR": "1"},
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        said, _ = await suite.communicate()
    summary = said.decode().partition("=== SUMMARY ===")[2].partition("Total:")[0]
    found = dict(re.findall(r"^. ([a-z0-9-]+): (\d+ passed, \d+ failed)", summary, re.MULTILINE))
    assert found, said.decode()[-3000:]
    failed = {name for name, counts in found.items() if not counts.endswith(" 0 failed")}
    print(f"{run}: {len(found) - len(failed)} of {len(found)}", file=sys.stderr)
    assert failed <= set(excused), said.decode()[-3000:]
    assert set(excused) <= failed, "what passes needs no excuse any more"
    assert len(found) - len(failed) >= FEWEST[run]
