"""The state store protocol of other frameworks, in both directions.

Five methods, known by their names alone: `save_event`, `load_history`, `save_remote_binding`,
`save_planner_state` and `load_planner_state`. `StateStoreOf` offers them on our store, `RunsIn` keeps our
runs in an object that has them.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from spindle.adapters.plain_runs import plain, plain_run, to_event, to_pause, to_run
from spindle.domain.call import new_id
from spindle.domain.identity import Secret
from spindle.domain.json_schema import JsonObject, canonical, from_json, to_json
from spindle.domain.run import PART, EventKind, Pause, Run, RunEvent, RunStatus
from spindle.errors import NotFoundError, StoreError

if TYPE_CHECKING:
    from spindle.auth.encryption import Sealer
    from spindle.ports.store import Claim, RunStore, SecretStore, Store, TraceStore


@dataclass(slots=True)
class StoredEvent:
    """One event of the protocol."""

    trace_id: str | None
    ts: float
    kind: str
    node_name: str | None = None
    node_id: str | None = None
    payload: Mapping[str, Any] = field(default_factory=dict[str, Any])


class StateStore(Protocol):
    """The state store of other frameworks, as programs implement it for a planner."""

    def save_event(self, event: Any) -> Awaitable[None]:
        """Keeps an event of a trace."""
        ...

    def load_history(self, trace_id: str) -> Awaitable[Sequence[Any]]:
        """Returns the events of a trace."""
        ...

    def save_remote_binding(self, binding: Any) -> Awaitable[None]:
        """Keeps the link between a trace and remote work."""
        ...

    def save_planner_state(self, token: str, payload: dict[str, Any]) -> Awaitable[None]:
        """Keeps a paused planner under its token."""
        ...

    def load_planner_state(self, token: str) -> Awaitable[dict[str, Any] | None]:
        """Returns the paused planner of a token, or None."""
        ...


class StateStoreOf:
    """Our store as a state store for other frameworks. Their data is encrypted, and a planner's state can
    be loaded once."""

    def __init__(self, store: Store, sealer: Sealer) -> None:
        self._runs: RunStore = store
        self._traces: TraceStore = store
        self._secrets: SecretStore = store
        self._sealer = sealer

    async def save_event(self, event: Any) -> None:
        """Saves an event. Saving the same one again changes nothing, so a failed save may be repeated."""
        run = f"trace:{event.trace_id or ''}"
        content = {name: getattr(event, name) for name in ("trace_id", "ts", "kind", "node_name", "node_id")}
        content = from_json(to_json({**content, "payload": dict(event.payload)}, default=str))
        id = hashlib.sha256(canonical(content)).hexdigest()[:32]
        if await self._has(run, id):
            return
        try:
            sealed = self._sealer.seal(content, run)
            await self._traces.save_trace(
                [RunEvent(run, "note", float(event.ts), str(event.kind), sealed, id)]
            )
        except StoreError:
            if not await self._has(run, id):  # another process may have been faster
                raise

    async def _has(self, run: str, id: str) -> bool:
        return any(event.id == id for event in await self._runs.history(run))

    async def load_history(self, trace_id: str) -> list[StoredEvent]:
        """The events saved under this trace; for the id of a run of ours, the notes of that run."""
        own = await self._runs.run(trace_id) if trace_id else None
        if own is not None and own.id == trace_id:
            return [self._noted(event) for event in await self._runs.history(own.id) if event.kind == "note"]
        run = f"trace:{trace_id}"
        events = await self._runs.history(run)
        opened = [self._sealer.open(event.sealed, run) for event in events if event.sealed is not None]
        return sorted((StoredEvent(**content) for content in opened), key=lambda event: event.ts)

    def _noted(self, event: RunEvent) -> StoredEvent:
        assert event.sealed is not None
        data: JsonObject = self._sealer.open(event.sealed, f"run:{event.run}:{event.path}")
        kind, name = data.get("kind", "node"), data.get("tool") or data.get("node")
        return StoredEvent(event.run, event.at, kind, name, event.path, data)

    async def save_remote_binding(self, binding: Any) -> None:
        content = from_json(to_json(dataclasses.asdict(binding), default=str))
        await self._save("binding", f"{binding.trace_id}:{binding.context_id}:{binding.task_id}", content)

    async def save_planner_state(self, token: str, payload: dict[str, Any]) -> None:
        await self._save("planner", token, payload)

    async def load_planner_state(self, token: str) -> dict[str, Any] | None:
        """Returns the state once: a second caller, in any process, gets None."""
        key = f"planner:{token}"
        secret = await self._secrets.secret("state", key)
        if secret is None or not await self._secrets.delete_secret("state", key):
            return None
        return self._sealer.open(secret.sealed, key)

    async def _save(self, what: str, name: str, content: Any) -> None:
        key = f"{what}:{name}"
        await self._secrets.save_secret(Secret("state", key, self._sealer.seal(content, key)))


_LOG = "spindle-runs"


class RunsIn:
    """Keeps our runs in another framework's store, as a log of all changes under one trace.

    The protocol has no conditional update: that a token works only once, and that a run has one holder, is
    certain within a process, but not between two that share the store. The whole log is read each time, so
    this is for hundreds of runs, not for many thousands.
    """

    def __init__(self, foreign: StateStore) -> None:
        self._foreign = foreign
        self._changing = asyncio.Lock()
        self._last = 0.0

    async def save_run(self, run: Run, events: Sequence[RunEvent] = (), pauses: Sequence[Pause] = ()) -> bool:
        async with self._changing:
            state = await self._read()
            if run.id in state.runs and not state.is_held(run):
                return False
            await self._log(
                {
                    "run": plain_run(run),
                    "events": [plain(event) for event in events if state.is_new(event)],
                    "pauses": [plain(pause) for pause in map(state.changed, pauses) if pause is not None],
                }
            )
            return True

    async def run(self, id: str) -> Run | None:
        runs = (await self._read()).runs
        found = [run for run in runs.values() if run.id.startswith(id)]
        if len(found) > 1 and id not in runs:
            raise NotFoundError(f"several runs begin with {id!r}", hint="give more characters of the id")
        return runs.get(id) or (found[0] if found else None)

    async def runs(
        self,
        *,
        limit: int,
        status: RunStatus | None = None,
        principal: str | None = None,
        kind: str | None = None,
        name: str | None = None,
        before: str | None = None,
    ) -> list[Run]:
        known = (await self._read()).runs
        end = None if before is None else list(known).index(before) if before in known else 0
        found = [
            run for run in [*known.values()][:end][::-1]
            if status in (None, run.status)
            and principal in (None, run.principal.id)
            and (run.kind != PART if kind is None else run.kind == kind)
            and name in (None, run.name)
        ]  # fmt: skip
        return found if limit < 0 else found[:limit]

    async def save_events(self, run: Run, events: Sequence[RunEvent]) -> bool:
        async with self._changing:
            state = await self._read()
            if not state.is_held(run):
                return False
            await self._log({"events": [plain(event) for event in events if state.is_new(event)]})
            return True

    def save_events_at_once(self, run: Run, events: Sequence[RunEvent]) -> bool | None:
        return None

    async def history(self, run: str, kind: EventKind | None = None) -> list[RunEvent]:
        return [one for one in (await self._read()).events if one.run == run and kind in (None, one.kind)]

    async def newest_event(self) -> int:
        return len((await self._read()).events)

    async def pause(self, token: str) -> Pause | None:
        return (await self._read()).pauses.get(token)

    async def pauses(
        self,
        *,
        run: str | None = None,
        principal: str | None = None,
        source: str | None = None,
        waiting: bool = True,
    ) -> list[Pause]:
        return [
            pause
            for pause in (await self._read()).pauses.values()
            if run in (None, pause.run)
            and principal in (None, pause.principal.id)
            and source in (None, pause.source)
            and (not waiting or pause.state == "waiting")
        ]

    async def answered(self, limit: int) -> list[Pause]:
        found = [pause for pause in await self.pauses(waiting=False) if pause.answer is not None]
        return found[::-1][:limit]

    async def due(self, limit: int) -> list[Pause]:
        waits = [pause for pause in await self.pauses() if pause.kind == "wait" and pause.expires_at]
        return sorted(waits, key=lambda pause: pause.expires_at or 0.0)[:limit]

    async def claim(self, token: str, answer: bytes | None, owner: str, lease: float, now: float) -> Claim:
        async with self._changing:
            state = await self._read()
            pause = state.pauses.get(token)
            if pause is None:
                return "unknown"
            if pause.state != "waiting":
                return "used"
            if pause.expires_at is not None and pause.expires_at <= now:
                return "expired"
            answered = replace(pause, state="answered", answer=answer)
            run = state.runs.get(pause.run)
            change: JsonObject = {"pauses": [plain(answered)]}
            if run is not None and run.status != "cancelled" and _is_free(run):
                change["run"] = plain_run(_taken(run, owner, lease, now))
            await self._log(change)
            return "claimed" if "run" in change else "noted"

    async def take_run(self, id: str, owner: str, lease: float, now: float) -> bool:
        return await self._take(id, _is_free, owner, lease, now)

    async def take_turn(self, id: str, turn: int, owner: str, lease: float, now: float) -> Run | None:
        def may(run: Run) -> bool:
            return run.turn == turn and run.status in ("queued", "running")

        return await self.run(id) if await self._take(id, may, owner, lease, now) else None

    async def reopen(self, id: str, owner: str, lease: float, now: float) -> bool:
        return await self._take(id, lambda run: run.status in ("failed", "cancelled"), owner, lease, now)

    async def _take(self, id: str, may: Callable[[Run], bool], owner: str, lease: float, now: float) -> bool:
        async with self._changing:
            run = (await self._read()).runs.get(id)
            if run is None or not may(run):
                return False
            await self._log({"run": plain_run(_taken(run, owner, lease, now))})
            return True

    async def queued(
        self, queue: str, *, principal: str | None = None, due_by: float | None = None, parts: bool = True
    ) -> int:
        found = await self.runs(limit=-1, status="queued", principal=principal)
        if parts:
            found += await self.runs(limit=-1, status="queued", principal=principal, kind=PART)
        return sum(run.queue == queue and (due_by is None or _may_begin(run, due_by)) for run in found)

    async def admit(self, queue: str, principal: str, most: int, now: float) -> list[str]:
        async with self._changing:
            runs = (await self._read()).runs.values()
            own = [run for run in runs if run.queue == queue and run.principal.id == principal]
            has_begun = [run.status == "running" or (run.status == "queued" and run.turn > 0) for run in own]
            held = sorted(
                (run for run in own if _is_held_back(run) and _may_begin(run, now)),
                key=lambda run: run.priority,
            )
            chosen = held[: max(most - sum(has_begun), 0)]
            for run in chosen:
                await self._log({"run": plain_run(replace(run, turn=1 - run.turn, updated_at=now))})
            return [run.id for run in chosen]

    async def held_back(self, now: float) -> list[tuple[str, str]]:
        async with self._changing:
            runs = (await self._read()).runs.values()
        return sorted(
            {
                (run.queue, run.principal.id)
                for run in runs
                if run.queue is not None and _is_held_back(run) and _may_begin(run, now)
            }
        )

    async def parts(self, prefix: str) -> dict[str, RunStatus]:
        found = await self.runs(limit=-1, kind=PART)
        found = [run for run in found if run.id.startswith(prefix)]
        return {run.id: run.status for run in sorted(found, key=lambda run: run.id)}

    async def adrift(self, before: float, lease: float, limit: int) -> list[Run]:
        def may_be(run: Run) -> bool:
            waits = (
                run.status == "queued"
                and run.turn > 0
                and max(run.updated_at, run.not_before or 0.0) < before
            )
            return run.queue is not None and (waits or (run.status == "running" and _is_free(run)))

        found = [run for run in await self.runs(limit=-1) if may_be(run)]
        return sorted(found, key=lambda run: run.updated_at)[:limit]

    async def renew_leases(self, runs: Sequence[Run], lease: float) -> set[str]:
        async with self._changing:
            state = await self._read()
            held = {run.id for run in runs if state.is_held(run)}
            for id in held:
                await self._log({"run": plain_run(replace(state.runs[id], lease=lease))})
            return held

    async def _log(self, change: JsonObject) -> None:
        # Other stores may sort by time alone, so no two changes of ours have the same time.
        self._last = max(time.time(), self._last + 1e-6)
        payload = {**change, "id": new_id()}
        await self._foreign.save_event(StoredEvent(_LOG, self._last, "spindle.change", payload=payload))

    async def _read(self) -> _State:
        state = _State()
        for event in await self._foreign.load_history(_LOG):
            # What is written next comes after all that is there, also if the clock was set back since.
            self._last = max(self._last, event.ts)
            change: Mapping[str, Any] = event.payload
            if "run" in change:
                run = to_run(change["run"])
                state.runs[run.id] = run
            state.events += [to_event(item) for item in change.get("events", ())]
            for item in change.get("pauses", ()):
                pause = to_pause(item)
                state.pauses[pause.token] = pause
        return state


@dataclass(slots=True)
class _State:
    runs: dict[str, Run] = field(default_factory=dict[str, Run])
    events: list[RunEvent] = field(default_factory=list[RunEvent])
    pauses: dict[str, Pause] = field(default_factory=dict[str, Pause])

    def is_held(self, run: Run) -> bool:
        known = self.runs.get(run.id)
        return known is not None and (known.owner, known.generation, known.status) == (
            run.owner,
            run.generation,
            "running",
        )

    def is_new(self, event: RunEvent) -> bool:
        """False for an event that is there, and for a second outcome of a step."""
        return not any(
            known.id == event.id
            or (event.kind == known.kind == "step" and (event.run, event.path) == (known.run, known.path))
            for known in self.events
        )

    def changed(self, pause: Pause) -> Pause | None:
        """Returns the pause as it is to be written: one that is known can only be closed."""
        known = self.pauses.get(pause.token)
        if known is None:
            return pause
        is_closed = pause.state == "answered" and known.state == "waiting"
        return replace(known, state="answered") if is_closed else None


def _is_held_back(run: Run) -> bool:
    return run.status == "queued" and run.turn <= 0


def _may_begin(run: Run, by: float) -> bool:
    return run.not_before is None or run.not_before <= by


def _is_free(run: Run) -> bool:
    dead = run.status == "running" and (run.lease is None or run.lease <= 0)
    return run.status in ("paused", "cancelled") or dead


def _taken(run: Run, owner: str, lease: float, now: float) -> Run:
    generation = run.generation + 1
    return replace(run, status="running", owner=owner, lease=lease, generation=generation, updated_at=now)
