#!/usr/bin/env python3
"""Installs packages into a virtual environment: `scripts/install.py .venv -c constraints.txt NAME...`.

uv does it, which is several times faster than pip. It does not read pip's settings, so those that say where
packages come from are handed to it; if there is one that it cannot be told, or it fails, pip does the work.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
UV = ROOT / ".venv" / "bin" / "uv"

# By setting of pip: the variable that tells uv the same.
TOLD = {
    "cert": "SSL_CERT_FILE",
    "default-timeout": "UV_HTTP_TIMEOUT",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "index-url": "UV_DEFAULT_INDEX",
    "no-cache-dir": "UV_NO_CACHE",
    "proxy": "ALL_PROXY",
    "timeout": "UV_HTTP_TIMEOUT",
    "trusted-host": "UV_INSECURE_HOST",
}
# Settings that change nothing about what is installed.
OWN = {
    "cache-dir", "config-file", "disable-pip-version-check", "no-color", "no-compile", "no-input",
    "no-python-version-warning", "no-warn-script-location", "prefer-binary", "progress-bar", "quiet",
    "require-virtualenv", "retries", "root-user-action", "verbose",
}  # fmt: skip
WITH_COMMAS = {"UV_FIND_LINKS"}


class UnknownSettingError(Exception):
    """A setting of pip that uv cannot be told."""


def pip_settings(listed: str) -> dict[str, str]:
    """The settings that count for `pip install`, out of what `pip config list` prints."""
    ranks: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in listed.splitlines():
        name, _, value = line.partition("=")
        section, _, key = name.rpartition(".")
        if section in ranks:
            ranks[section][key] = str(ast.literal_eval(value))
    return {key: value for section in ranks.values() for key, value in section.items()}


def uv_environment(settings: dict[str, str]) -> dict[str, str]:
    """The variables that tell uv what these settings tell pip."""
    told: dict[str, str] = {}
    for name, value in settings.items():
        if name in TOLD:
            variable = TOLD[name]
            told[variable] = ",".join(value.split()) if variable in WITH_COMMAS else " ".join(value.split())
        elif name not in OWN:
            raise UnknownSettingError(name)
    # pip takes the best version from all places, uv by default from the first that has the name at all.
    return {
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_SYSTEM_CERTS": "true",
        **told,
    }


def with_uv(environment: Path, arguments: list[str]) -> bool:
    """Installs with uv, and returns whether that went well."""
    pip = [str(ROOT / ".venv" / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    if not UV.exists():
        got = subprocess.run([*pip, "install", "-qq", "-c", str(ROOT / "constraints.txt"), "uv"], check=False)
        if got.returncode:
            return False
    listed = subprocess.run([*pip, "config", "list"], check=True, capture_output=True, text=True).stdout
    try:
        told = uv_environment(pip_settings(listed))
    except UnknownSettingError:
        return False
    command = [str(UV), "pip", "install", "--quiet", "--python", str(environment / "bin" / "python")]
    return not subprocess.run(
        [*command, *arguments], env={**told, **os.environ, **told}, check=False
    ).returncode


def install(environment: Path, arguments: list[str]) -> int:
    """Installs with uv or else with pip; returns the exit code."""
    if with_uv(environment, arguments):
        return 0
    print("==> uv cannot install here, so pip does it (this takes longer)", file=sys.stderr)
    # Our own pip, as the environment may have none.
    pip = [
        str(ROOT / ".venv" / "bin" / "python"),
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--no-input",
        "-qq",
    ]
    into = ["--python", str(environment / "bin" / "python")]
    return subprocess.run([*pip, *into, "install", *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(install(Path(sys.argv[1]), sys.argv[2:]))
