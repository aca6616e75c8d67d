"""Workspaces with AsyncAPI documents."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import spindle
from spindle.app import Spindle


class Workspace:
    """A folder with documents in `events/`. What was noted while it was open is in `notes`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.notes: list[str] = []
        (root / "spindle.toml").touch()

    def write(self, name: str, content: str | dict[str, Any]) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    def settings(self, **values: Any) -> None:
        lines = [f"{key} = {_toml(value)}" for key, value in values.items()]
        self.write("spindle.toml", "[sources.events]\n" + "\n".join(lines) + "\n")

    @contextlib.asynccontextmanager
    async def open(self, **options: Any) -> AsyncIterator[Spindle]:
        async with spindle.open(self.root, note=self.notes.append, **options) as app:
            yield app


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    return json.dumps(value)


def document(
    *,
    address: str | None = "orders/placed",
    payload: Any = None,
    server: dict[str, Any] | None = None,
    bindings: dict[str, Any] | None = None,
    message: dict[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """AsyncAPI 3.0 with one channel, and the tools `emit` and `wait` on it."""
    described = {"payload": payload if payload is not None else {"type": "object"}, **(message or {})}
    channel: dict[str, Any] = {"address": address, "messages": {"Placed": described}}
    if bindings:
        channel["bindings"] = bindings
    reference = {"$ref": "#/channels/c"}
    found: dict[str, Any] = {
        "asyncapi": "3.0.0",
        "info": {"title": "T", "version": "1.0.0"},
        "channels": {"c": channel},
        "operations": {
            "emit": {"action": "send", "channel": reference, "x-agent-tool": True},
            "wait": {"action": "receive", "channel": reference, "x-agent-tool": True},
        },
    }
    if server:
        found["servers"] = {"main": server}
    return found | more
