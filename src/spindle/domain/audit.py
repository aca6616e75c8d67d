"""Entries of the audit log: who did what, when, and whether it was allowed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

MAX_TEXT = 500
"""Characters that are kept of a text from outside."""


class AuditEntry(NamedTuple):
    """One entry. It never holds arguments, results or secrets. A tuple, as every call makes one and the store
    takes it as it is."""

    at: float
    action: str
    """`call`, `read`, `list`, `enter` (a request that was not let in), or a change such as `token.create`."""
    target: str = ""
    """A tool, the address of a resource, or the name of what was changed."""
    principal: str = ""
    """Empty where nobody was identified."""
    allowed: bool = True
    outcome: str = "ok"
    """`ok`, or the category of the error; also what was allowed may fail."""
    reason: str = ""
    door: str = ""
    """The way by which it came: `http`, `stdio`, `shell`."""
    address: str = ""
    call: str = ""
    """The key of the call's record."""
    id: int = 0
    """Given by the store, in the order in which entries were added."""

    def to_dict(self) -> dict[str, Any]:
        """Returns it as JSON, with the time as RFC 3339 has it. Empty fields are omitted."""
        fields = {key: value for key, value in self._asdict().items() if value != ""}
        return {"id": fields.pop("id"), "time": timestamp(fields.pop("at")), **fields}


def timestamp(at: float) -> str:
    """The time as RFC 3339 has it, in UTC."""
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at))
    return f"{whole}.{int(at % 1 * 1000):03d}Z"


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """The conditions that entries must all meet. None: any."""

    principal: str | None = None
    action: str | None = None
    """An action, or the beginning of several: `token` means `token.create` too."""
    target: str | None = None
    allowed: bool | None = None
    since: float | None = None
    until: float | None = None
