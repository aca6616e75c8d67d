"""Runs, their events and their pauses as JSON, and back, for stores of other frameworks."""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping
from typing import Any

from spindle.domain.identity import Principal
from spindle.domain.json_schema import JsonObject
from spindle.domain.records import fields_of
from spindle.domain.run import Pause, Run, RunEvent


def plain_run(run: Run) -> JsonObject:
    """Returns a run as JSON, in which the lease is the time at which it ends: the store has no clock."""
    fields = plain(run)
    lease = fields.pop("lease")
    return {**fields, "lease_until": None if lease is None else time.time() + lease}


def plain(value: Any) -> JsonObject:
    """Returns a record as JSON: bytes as base64, the principal as a pair."""
    fields = fields_of(value)
    for name, part in fields.items():
        if isinstance(part, bytes):
            fields[name] = base64.b64encode(part).decode()
        elif isinstance(part, Principal):
            fields[name] = [part.id, sorted(part.groups)]
    return fields


def _whole(fields: Mapping[str, Any], *binary: str) -> dict[str, Any]:
    found = dict(fields)
    for name in binary:
        if found[name] is not None:
            found[name] = base64.b64decode(found[name])
    if "principal" in found:
        id, groups = found["principal"]
        found["principal"] = Principal(id, frozenset(groups))
    return found


def to_run(fields: Mapping[str, Any]) -> Run:
    """Returns the run that `plain_run` wrote."""
    found = _whole(fields)
    until = found.pop("lease_until")
    return Run(**found, lease=None if until is None else until - time.time())


def to_event(fields: Mapping[str, Any]) -> RunEvent:
    """Returns the event that `plain` wrote."""
    return RunEvent(**_whole(fields, "sealed"))


def to_pause(fields: Mapping[str, Any]) -> Pause:
    """Returns the pause that `plain` wrote."""
    return Pause(**_whole(fields, "sealed", "answer"))
