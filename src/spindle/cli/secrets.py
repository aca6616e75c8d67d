"""Noticing secrets that stand in a file in clear."""

from __future__ import annotations

import re
from pathlib import Path

_SECRET_NAME = re.compile(r"token|key|secret|passw|auth|credential", re.IGNORECASE)
_REFERENCE = re.compile(r"\$\{[A-Za-z_]")


def looks_secret(name: str, value: str) -> bool:
    """Whether a value is probably a secret written out, rather than a reference to a variable."""
    return bool(value and _SECRET_NAME.search(name) and not _REFERENCE.search(value))


def clear_secret_note(name: str, value: str, file: Path) -> str | None:
    if not looks_secret(name, value):
        return None
    variable = re.sub(r"[^A-Za-z0-9]+", "_", name).upper()
    return f"{name} now stands in clear in {file}; {name}=${{{variable}}} would take it from the environment"
