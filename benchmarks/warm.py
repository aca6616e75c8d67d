"""`spindle call` with `spindle up` and without, beside a Python that does nothing: CPU of the client and wall
time. Rounds are interleaved."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from table import Row

SERVER = Path(__file__).parent / "servers" / "echo.py"
PROGRAM = str(Path(sys.executable).with_name("spindle"))
CALL = [PROGRAM, "call", "echo.echo", "--text=hello"]
BARE, COLD, WARM = "python -c pass", "spindle call, cold", "spindle call, warm"


def warm(quick: bool) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="warm-") as folder:
        place = Path(folder, "workspace")
        place.mkdir()
        server = json.dumps([sys.executable, "-I", "-S", str(SERVER), "10"])
        (place / "spindle.toml").write_text(f"[sources.echo]\ncommand = {server}\n")
        for name in ("warm", "cold", "home"):
            Path(folder, name).mkdir(mode=0o700)
        kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        environ = kept | {
            "SPINDLE_TRUST": "1",
            "SPINDLE_HOME": f"{folder}/home",
            "XDG_RUNTIME_DIR": f"{folder}/warm",
        }
        # Where a shell looks for the socket in another folder, there is none.
        cold = environ | {"XDG_RUNTIME_DIR": f"{folder}/cold"}
        _run([PROGRAM, "sync"], place, environ)
        _run([PROGRAM, "up"], place, environ)
        try:
            found = _rounds(5 if quick else 30, place, {BARE: environ, COLD: cold, WARM: environ})
        finally:
            _run([PROGRAM, "down"], place, environ)
    rows: list[Row] = []
    for name, goals in ((BARE, (None, None)), (COLD, (None, None)), (WARM, (0.08, 0.15))):
        for what, goal, index in (("CPU", goals[0], 0), ("wall", goals[1], 1)):
            value = statistics.median(item[index] for item in found[name])
            rows.append(Row("warm", f"{what} of `{name}`", value, "s", goal=goal))
    return rows


def _rounds(
    count: int, place: Path, environs: Mapping[str, Mapping[str, str]]
) -> dict[str, list[tuple[float, float]]]:
    commands = {BARE: [sys.executable, "-c", "pass"], COLD: CALL, WARM: CALL}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for number in range(count + 1):
        for name, command in commands.items():
            taken = _run(command, place, environs[name])
            if number:  # the first fills caches, and opens the session
                found[name].append(taken)
    return found


def _run(command: Sequence[str], place: Path, environ: Mapping[str, str]) -> tuple[float, float]:
    """Runs a program, and returns its CPU time, without that of others, and its wall time."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=place, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} failed with {process.returncode}")
    return used.ru_utime + used.ru_stime, seconds
