#!/usr/bin/env python3
"""Installs Spindle and what some parts of the work need into .venv: those of requirements/parts.toml.

`scripts/prepare.py demo check` prepares these parts, `scripts/prepare.py PARTS... --tests ARGUMENTS...` also
those of the tests that pytest would run with these arguments, `--all` prepares all; `--packages` lists all.
What was installed is written down, so the next time it takes no time unless a list or a version has changed.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tomllib
from typing import Any

from install import ROOT, install

PARTS: dict[str, dict[str, Any]] = tomllib.loads((ROOT / "requirements" / "parts.toml").read_text())
ENVIRONMENT = ROOT / ".venv"
INSTALLED = ENVIRONMENT / "parts.json"


def parts_for_tests(arguments: list[str]) -> list[str]:
    """The parts that these arguments of pytest need: those of the paths they name, or all."""
    paths = [word.partition("::")[0].rstrip("/") for word in arguments]
    named = [path.removeprefix("tests").lstrip("/") for path in paths if path.split("/")[0] == "tests"]
    if not all((ROOT / "tests" / path).exists() for path in named):
        named = []
    wanted = named or [""]
    return [
        name
        for name, part in PARTS.items()
        if any(_overlap(path, needed) for path in wanted for needed in part.get("tests", ()))
    ]


def _overlap(one: str, other: str) -> bool:
    """True if one path is the other or lies below it; the empty path is above all."""
    shorter, longer = sorted((one, other), key=len)
    return not shorter or longer == shorter or longer.startswith(f"{shorter}/")


def digest(name: str) -> str:
    """Changes with the list of the part, the versions and the dependencies of the package."""
    described = tomllib.loads((ROOT / "pyproject.toml").read_text())
    told = json.dumps([PARTS.get(name), described["project"], described["build-system"]])
    versions = (ROOT / "constraints.txt").read_text()
    return hashlib.sha256(f"{told}\n{versions}".encode()).hexdigest()


def prepare(names: list[str]) -> int:
    installed: dict[str, str] = json.loads(INSTALLED.read_text()) if INSTALLED.exists() else {}
    missing = [name for name in ("spindle", *names) if installed.get(name) != digest(name)]
    if not missing:
        return 0
    print(f"==> installing into .venv: {', '.join(missing)}", file=sys.stderr)
    constrained = ["-c", str(ROOT / "constraints.txt")]
    tools = ["-r", str(ROOT / "requirements" / "build.txt")]
    if code := install(ENVIRONMENT, [*constrained, *tools]):
        return code
    parts = [PARTS.get(name, {}) for name in missing]
    extras = sorted({extra for part in parts for extra in part.get("extras", ())})
    packages = sorted({package for part in parts for package in part.get("packages", ())})
    itself = ["--no-build-isolation", "-e", f"{ROOT}[{','.join(extras)}]" if extras else str(ROOT)]
    if code := install(ENVIRONMENT, [*constrained, *packages, *itself]):
        return code
    INSTALLED.write_text(json.dumps({**installed, **{name: digest(name) for name in missing}}, indent=1))
    return 0


def main(words: list[str]) -> int:
    if words == ["--packages"]:
        print(
            "uv",
            *sorted({package for part in PARTS.values() for package in part.get("packages", ())}),
            sep="\n",
        )
        return 0
    if words == ["--all"]:
        return prepare(list(PARTS))
    named, of_tests = words, []
    if "--tests" in words:
        at = words.index("--tests")
        named, of_tests = words[:at], parts_for_tests(words[at + 1 :])
    if unknown := [word for word in named if word not in PARTS]:
        sys.exit(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    return prepare([*named, *of_tests])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
