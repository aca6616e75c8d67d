"""Columns of tools beside plain JSON."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

from table import Row

WORKER = Path(__file__).with_name("tables_worker.py")


def tables(quick: bool) -> list[Row]:
    count, rounds = (10_000, 2) if quick else (100_000, 3)
    found = [_round(count) for _ in range(rounds)]

    def row(what: str, key: str, beside: str) -> Row:
        value = statistics.median(item[key] for item in found)
        ratio = statistics.median(item[key] / item[beside] for item in found)
        return Row("tables", f"{count:,} tools, {what}", value, "s", ratio)

    return [
        row("into a column; ratio to json.dumps", "encode", "json_encode"),
        row("out of a column; ratio to json.loads", "decode", "json_decode"),
        row("out of a column; ratio to json.loads with checked values", "decode", "json_values"),
        row("under unique names; ratio to json.dumps", "names", "json_encode"),
        row("opened for calls; ratio to json.dumps", "open", "json_encode"),
        row("written as Parquet; ratio to json.dumps", "write", "json_encode"),
        row("read from Parquet, as values; ratio to json.loads", "read", "json_decode"),
    ]


def _round(count: int) -> dict[str, float]:
    command = [sys.executable, str(WORKER), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"the tables failed:\n{done.stderr}")
    return json.loads(done.stdout)
