"""The engine of a workspace without one: runs execute in the process that starts them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from spindle.errors import ConfigurationError

if TYPE_CHECKING:
    from spindle.domain.engine import QueueConfig
    from spindle.ports.engine import EngineWorker, RunTurn

INSTALL = "pip install 'spindle-tools[durable]'"


class LocalEngine:
    """Keeps no queue. What needs one is refused, with the way to get one."""

    def __init__(self, *, is_chosen: bool = False) -> None:
        self._hint = (
            'take `kind = "local"` out of [engine] in spindle.toml, with the engine installed: ' + INSTALL
            if is_chosen
            else INSTALL
        )

    @property
    def queues(self) -> Mapping[str, QueueConfig]:
        return {}

    def queue(self, name: str) -> QueueConfig:
        raise self._refusal("runs cannot be submitted")

    async def check(self) -> None:
        raise self._refusal("runs cannot be submitted")

    async def submit(self, turn: RunTurn) -> None:
        raise self._refusal("runs cannot be submitted")

    async def unfinished(self, turns: Collection[str]) -> set[str]:
        return set()

    async def cancel(self, turn: str) -> None:
        """Nothing waits."""

    async def work(self, worker: EngineWorker) -> None:
        raise self._refusal("there is nothing to work on")

    async def close(self) -> None:
        """Nothing is open."""

    def _refusal(self, what: str) -> ConfigurationError:
        return ConfigurationError(f"{what}: this workspace has no engine that keeps queues", hint=self._hint)
