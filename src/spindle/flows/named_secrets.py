"""`${secrets.NAME}`: the secrets of the workspace that the flow which runs now may read."""

from __future__ import annotations

from typing import Any, Final

from spindle.calls.known_secrets import known_secrets
from spindle.flows.expressions.paths import MISSING, Path

SECRETS: Final = "secrets"
"""The first word of a template for a secret of the workspace, which is no key of the shared store."""


def named_secret(path: Path) -> Any:
    """Returns the value of `${secrets.NAME}` in the flow that runs now, or MISSING."""
    known = known_secrets.get()
    return known.named.get(str(path[1]), MISSING) if known is not None and len(path) == 2 else MISSING
