"""Triggers: something happens elsewhere and starts a flow.

What happens is an event: it is bounded, mapped to the flow's inputs, and submitted under a key that is made
of its id. So an event that comes twice, or is taken up again after a crash, has one run.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from spindle.calls.options import CallOptions
from spindle.domain.call import new_id
from spindle.domain.json_schema import to_json
from spindle.domain.trigger_state import TriggerState
from spindle.errors import BusyError, Interruption, InvalidArgumentsError, SpindleError, StoreError
from spindle.runs.placing import Placing

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.calls.permissions import Visible
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.run import Run
    from spindle.domain.trigger import TriggerConfig
    from spindle.ports.source import Note

MAX_EVENT: Final = 1024 * 1024
"""Bytes of an event, as JSON."""
LEASE: Final = 10.0
"""Seconds after which another process listens in the place of one that died."""
RENEW: Final = 3.0
FIRST_WAIT: Final = 1.0
LONGEST_WAIT: Final = 30.0

Listen = Callable[["Trigger"], Coroutine[Any, Any, None]]
"""Fires a trigger for each event. Ends with an error when nothing can be heard any more."""


_for_owner: ContextVar[bool] = ContextVar("a trigger acts, for the owner of the workspace", default=False)


def or_owner(visible: Visible) -> Visible:
    """Returns a rule of who sees what for a server whose triggers may use all tools."""
    return lambda principal, name: _for_owner.get() or visible(principal, name)


def triggers_of(app: Spindle) -> dict[str, TriggerConfig]:
    """Returns the triggers of a workspace. Raises ConfigurationError for a mistake in them."""
    settings = app.settings
    if "triggers" not in settings.raw:
        return {}  # and nothing is loaded for them, in a server that has none
    from spindle.settings.triggers import read_triggers

    return read_triggers(settings.raw["triggers"], settings.root / "spindle.toml", settings.environ)


class Trigger:
    """One trigger: submits its flow for each event."""

    def __init__(self, app: Spindle, name: str, config: TriggerConfig, note: Note) -> None:
        self.app = app
        self.name = name
        self.config = config
        self._note = note

    async def fire(self, event: JsonObject, key: str | None = None) -> Run:
        """Submits the flow for an event, once for its `id`, or for a key that tells more. Raises what is
        wrong with it: BusyError and StoreError may pass, the others will not."""
        try:
            run, is_new = await self._submitted(event, key or str(event["id"]))
        except StoreError:
            raise
        except (SpindleError, Interruption) as error:
            await self._note_error(error, happened=True)
            if isinstance(error, Interruption):
                raise InvalidArgumentsError(f"it cannot be run now: {error.message}") from None
            raise
        # What is delivered again has the run that it had.
        state = TriggerState(self.name, int(is_new), await self.app.store.time(), run.id)
        await self.app.store.save_trigger(state, happened=True)
        return run

    async def _submitted(self, event: JsonObject, key: str) -> tuple[Run, bool]:
        size = len(to_json(event, default=str))
        if size > MAX_EVENT:
            raise InvalidArgumentsError(f"the event has {size} bytes, and {MAX_EVENT} may be")
        from spindle.flows.shared import SharedLookup
        from spindle.flows.templates import ExpressionError, render

        try:
            inputs = render(self.config.inputs, SharedLookup({"event": event}))
        except ExpressionError as error:
            raise InvalidArgumentsError(
                f"its inputs cannot be made of the event: {error.problem}", hint=error.hint
            ) from None
        from spindle.flows.workspace import KIND

        options, token = CallOptions(), _for_owner.set(True)
        try:
            name, given = await self.app.flows.to_submit(self.config.flow, inputs, options)
            # An event of which nothing is handed on brings nothing in.
            if self.config.untrusted and inputs != self.config.inputs:
                given["untrusted"] = f"trigger {self.name}"
            return await self.app.runner.submissions.submit_once(
                KIND, name, given, options, self._placing(key)
            )
        finally:
            _for_owner.reset(token)

    def _placing(self, key: str) -> Placing:
        return Placing(self.config.queue, self.config.priority, dedup=f"trigger:{self.name}:{key}")

    async def is_at_work(self, key: str) -> bool:
        """True if the event with this key has a run that has not ended."""
        run = await self.app.store.run(self._placing(key).id_for(CallOptions().principal.id))
        return run is not None and run.status in ("queued", "running", "paused")

    async def fire_or_drop(self, event: JsonObject, key: str | None = None) -> None:
        """The same for an event that nobody sends again: waits while the queue is full, and what is wrong
        with the event is noted, so that the next one is heard."""
        wait = FIRST_WAIT
        while True:
            try:
                await self.fire(event, key)
                return
            except BusyError:
                await asyncio.sleep(wait)
                wait = min(wait * 2, LONGEST_WAIT)
            except StoreError:
                raise
            except SpindleError as error:
                self._note(f"trigger {self.name}: an event started no run: {error.message}")
                return

    async def _note_error(self, error: SpindleError | Interruption, *, happened: bool) -> None:
        category = error.category if isinstance(error, SpindleError) else error.kind
        said = {"category": category, "message": error.message}
        at = await self.app.store.time() if happened else None
        state = TriggerState(self.name, last_at=at, error=said)
        await self.app.store.save_trigger(state, happened=happened)

    # --- listening

    async def keep(self, listen: Listen) -> None:
        """Listens until it is cancelled, as long as no other process does, and begins again after errors."""
        lease, owner = lease_of(self.name), self.app.runner.owner
        wait = FIRST_WAIT
        while True:
            try:
                if not await self.app.store.acquire(lease, owner, LEASE):
                    await asyncio.sleep(RENEW)
                    continue
                try:
                    await self._listen_while_held(listen, lease, owner)
                finally:
                    with contextlib.suppress(SpindleError):
                        await self.app.store.release(lease, owner)
                wait = FIRST_WAIT
            except (SpindleError, Interruption) as error:
                self._note(f"trigger {self.name}: {error.message}")
                with contextlib.suppress(SpindleError):
                    await self._note_error(error, happened=False)
            except Exception as error:  # noqa: BLE001 - a task's top: it begins again, and the others go on
                self._note(f"trigger {self.name}: {error!r}")
            await asyncio.sleep(wait)
            wait = min(wait * 2, LONGEST_WAIT)

    async def _listen_while_held(self, listen: Listen, lease: str, owner: str) -> None:
        # What cannot run at all is said before anything happens.
        await self.app.flows.find(self.config.flow, CallOptions().principal)
        self.app.runner.submissions.engine.queue(self.config.queue)
        listening = asyncio.create_task(listen(self), name=f"trigger {self.name}")
        try:
            await self.app.store.save_trigger(TriggerState(self.name), happened=False)
            while not listening.done():
                await asyncio.wait([listening], timeout=RENEW)
                if not listening.done() and not await self.app.store.acquire(lease, owner, LEASE):
                    return
            listening.result()
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)


def lease_of(name: str) -> str:
    """Returns the name of the lease that whoever listens for a trigger holds."""
    return f"trigger:{name}"


async def is_heard(app: Spindle, name: str) -> bool:
    """True if a process listens for a trigger."""
    lease, looker = lease_of(name), new_id()
    if not await app.store.acquire(lease, looker, 0.0):
        return True
    await app.store.release(lease, looker)
    return False
