"""Conversions between rows and the objects that outlive a process: runs, their events and pauses, secrets."""

from __future__ import annotations

from typing import Any

from spindle.auth.details import CLEAR
from spindle.domain.identity import Principal, Secret
from spindle.domain.json_schema import from_json, to_json
from spindle.domain.run import Pause, Run, RunEvent
from spindle.errors import StoreError
from spindle.ports.store import Seal
from spindle.stores.rows import storable

RUN = (
    "id", "kind", "name", "principal", "groups", "status", "created_at", "updated_at", "error", "owner",
    "lease", "generation", "queue", "turn", "priority", "not_before",
)  # fmt: skip
"""Of which `lease` is a column only as the time at which it ends."""
EVENT = ("run", "kind", "at", "path", "sealed", "id")
PAUSE = (
    "token", "run", "path", "kind", "message", "principal", "groups", "created_at", "source", "tool",
    "expires_at", "state", "sealed", "answer",
)  # fmt: skip
SECRET = ("kind", "key", "sealed", "source", "principal", "expires_at", "used", "updated_at")


def run_row(run: Run, seal: Seal = CLEAR) -> dict[str, Any]:
    """The columns of a run, its error sealed for it."""
    error = to_json(run.error, default=str) if run.error else None
    if error is not None:
        error = seal.seal(error, f"run:{run.id}:error")
    values = (
        run.id, run.kind, storable(run.name), storable(run.principal.id), groups_row(run.principal),
        run.status, run.created_at, run.updated_at, error, run.owner, run.lease, run.generation,
        run.queue, run.turn, run.priority, run.not_before,
    )  # fmt: skip
    return dict(zip(RUN, values, strict=True))


def run_from_row(row: tuple[Any, ...], seal: Seal = CLEAR) -> Run:
    """The run in a row. An error that cannot be opened is replaced by a word on why."""
    (
        id,
        kind,
        name,
        principal,
        groups,
        status,
        created_at,
        updated_at,
        error,
        owner,
        lease,
        generation,
        *submitted,
    ) = row
    return Run(
        name, kind, principal_of(principal, groups), status, created_at, updated_at,
        opened_error(error, f"run:{id}:error", seal) if error else None, owner, lease, generation, id,
        *submitted,
    )  # fmt: skip


def opened_error(error: bytes, place: str, seal: Seal) -> Any:
    """The error in a column. One that cannot be opened is replaced by a word on why."""
    try:
        return from_json(seal.open(error, place))
    except StoreError as unreadable:
        return {"category": "store", "message": unreadable.message}


def event_row(event: RunEvent) -> dict[str, Any]:
    """The columns of a run's event."""
    return dict(zip(EVENT, event_values(event), strict=True))


def event_values(event: RunEvent) -> tuple[Any, ...]:
    """The values of those columns, in their order."""
    return (event.run, event.kind, event.at, storable(event.path), event.sealed, event.id)


def pause_row(pause: Pause) -> dict[str, Any]:
    """The columns of a pause."""
    values = (
        pause.token, pause.run, storable(pause.path), pause.kind, storable(pause.message),
        storable(pause.principal.id), groups_row(pause.principal), pause.created_at, pause.source,
        pause.tool and storable(pause.tool), pause.expires_at, pause.state, pause.sealed, pause.answer,
    )  # fmt: skip
    return dict(zip(PAUSE, values, strict=True))


def pause_from_row(row: tuple[Any, ...]) -> Pause:
    """The pause in a row."""
    token, run, path, kind, message, principal, groups, *rest = row
    return Pause(token, run, path, kind, message, principal_of(principal, groups), *rest)


def principal_of(id: str, groups: bytes) -> Principal:
    """The principal in two columns."""
    return Principal(id, frozenset(from_json(groups)))


def groups_row(principal: Principal) -> bytes:
    """The column of a principal's groups."""
    return to_json(sorted(principal.groups))


def secret_row(secret: Secret) -> dict[str, Any]:
    """The columns of a secret."""
    values = (
        secret.kind, storable(secret.key), secret.sealed, secret.source, storable(secret.principal),
        secret.expires_at, secret.used, secret.updated_at,
    )  # fmt: skip
    return dict(zip(SECRET, values, strict=True))


def secret_from_row(row: tuple[Any, ...]) -> Secret:
    """The secret in a row."""
    kind, key, sealed, source, principal, expires_at, used, updated_at = row
    return Secret(kind, key, sealed, source, principal, expires_at, bool(used), updated_at)
