"""Keeping the audit log while a workspace is served."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from spindle.serving.audit import AuditLog

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.ports.source import Note
    from spindle.serving.access import ServingAccess


@contextlib.asynccontextmanager
async def audited(app: Spindle, access: ServingAccess, door: str, note: Note) -> AsyncGenerator[None]:
    """Has all that comes in by this door noted, meanwhile, as far as the settings want it."""
    if access.config.audit == "off":
        yield
        return
    only_refusals = access.config.audit == "refusals"
    log = access.audit = AuditLog(app.store, note, door=door, only_refusals=only_refusals)
    app.recorder.hear(log.called)
    app.recorder.on_unknown = log.unknown
    try:
        yield
    finally:
        await log.close()
