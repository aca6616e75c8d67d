"""Notices secrets written in plain text."""

from __future__ import annotations

import re
from pathlib import Path

_SECRET_NAME = re.compile(r"token|key|secret|passw|auth|credential", re.IGNORECASE)
_REFERENCE = re.compile(r"\$\{[A-Za-z_]")


def looks_secret(name: str, value: str) -> bool:
    """True if a value is probably a secret, rather than a reference to a variable."""
    return bool(value and _SECRET_NAME.search(name) and not _REFERENCE.search(value))


def clear_secret_note(name: str, value: str, file: Path) -> str | None:
    """The note about a secret written in plain text, or None."""
    if not looks_secret(name, value):
        return None
    variable = re.sub(r"[^A-Za-z0-9]+", "_", name).upper()
    return f"{file} now holds {name} in plain text; {name}=${{{variable}}} would read it from the environment"
