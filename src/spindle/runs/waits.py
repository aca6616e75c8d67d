"""Runs that wait for nobody: until a time, or until something comes. They end their execution like those that
wait for a person, and are continued by whichever process sees that it is time."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Protocol

from spindle.domain.bounded import BoundedMap
from spindle.errors import ClientError, Interruption, SpindleError

if TYPE_CHECKING:
    from spindle.domain.run import Pause
    from spindle.ports.source import Note
    from spindle.ports.store import RunStore
    from spindle.runs.outcomes import Outcome

OVER: Final = "over"
"""The `state` of a reply to a wait that has ended by its time, so that there is no answer."""
EVENTS: Final = ":event"
"""The `source` of pauses that wait for events."""
HOOK_PATH: Final = "/hooks/"
"""The beginning of the addresses of webhooks; the token of the pause follows."""
LOOK: Final = 5.0
"""Seconds after which the store is looked at again: for waits of other processes, and for a clock that was
set."""
AT_ONCE: Final = 8
RETRY: Final = 60.0
"""Seconds before the next try with a run that could not be continued."""


def shown_path(path: str) -> str:
    """Returns the path of a request as logs show it: their readers must not learn a webhook's address."""
    return f"{HOOK_PATH}…" if path.startswith(HOOK_PATH) else path


class WaitRequired(Interruption):
    """Work goes on at `expires_at`, or when something comes. `details` says what it waits for, with the
    `schema` of what may come. `state` may hold `after`, seconds from now instead of `expires_at`, and the
    `token` of the pause, if that must be known beforehand."""

    kind = "wait"


def token_of(question: Interruption) -> str:
    """Returns the token of the pause for a question: unguessable, and its own if it brings one."""
    own = question.state.get("token") if isinstance(question, WaitRequired) and question.state else None
    return own or secrets.token_hex(16)


def ends_at(question: Interruption, now: float) -> float | None:
    """Returns when the pause for a question ends by itself, if it is asked now."""
    if isinstance(question, WaitRequired) and question.state and "after" in question.state:
        return now + question.state["after"]
    # A link that has expired is replaced by a new one when the run goes on, so the pause itself has no end.
    return None if question.kind == "consent" else question.expires_at


def is_over(question: Interruption, pause: Pause | None, now: float) -> bool:
    """True for a wait that has ended by its time. `pause`: the one for it, if it was begun before."""
    if not isinstance(question, WaitRequired):
        return False
    ends = pause.expires_at if pause is not None else question.expires_at
    return ends is not None and ends <= now


class _Resumes(Protocol):
    """The part of a Runner that is needed here."""

    async def resume(self, token: str) -> Outcome: ...


async def _anything(_: str) -> bool:
    return True


class DueRuns:
    """Continues the runs whose waits are over. Several processes may do so: each run is taken by one."""

    def __init__(self, runner: _Resumes, store: RunStore, now: Callable[[], float], note: Note) -> None:
        self.can_do: Callable[[str], Awaitable[bool]] = _anything
        """Says if this process could do the work of a run, which it must not take otherwise."""
        self._runner = runner
        self._store = store
        self._now = now
        self._note = note
        self._places = asyncio.Semaphore(AT_ONCE)
        self._at_work: dict[str, asyncio.Task[None]] = {}
        self._not_before: BoundedMap[str, float] = BoundedMap()

    async def run(self) -> None:
        """Continues runs until it is cancelled. By the clock, which may be set and jump, so it is looked at
        again and again."""
        try:
            while True:
                wait = LOOK
                try:
                    wait = min(LOOK, max(await self.look() - self._now(), 0.05))
                except SpindleError as error:
                    self._note(f"runs that wait could not be looked for: {error.message}")
                await asyncio.sleep(wait)
        finally:
            for task in self._at_work.values():
                task.cancel()
            await asyncio.gather(*self._at_work.values(), return_exceptions=True)

    async def look(self) -> float:
        """Begins to continue all runs whose waits are over now. Returns when the next will be."""
        now = self._now()
        for pause in await self._store.due(100 + len(self._at_work) + len(self._not_before)):
            if pause.expires_at is not None and pause.expires_at > now:
                return pause.expires_at
            if pause.run not in self._at_work and self._not_before.get(pause.run, now) <= now:
                task = asyncio.create_task(self._continue(pause.run), name=f"continue {pause.run}")
                self._at_work[pause.run] = task
                task.add_done_callback(lambda _, run=pause.run: self._at_work.pop(run, None))
        return now + LOOK

    async def waiting(self, token: str) -> Pause | None:
        """Returns the wait with this token, if something may still come for it."""
        found = await self._store.pause(token)
        if found is None or found.kind != "wait" or found.state != "waiting":
            return None
        return found if found.expires_at is None or found.expires_at > self._now() else None

    @property
    def count(self) -> int:
        """The number of runs that are being continued."""
        return len(self._at_work)

    async def settled(self) -> None:
        """Waits until the runs that were begun are done, or wait again."""
        while self._at_work:
            await asyncio.wait(list(self._at_work.values()))

    async def _continue(self, run: str) -> None:
        async with self._places:
            self._not_before[run] = self._now() + RETRY
            try:
                if not await self.can_do(run):
                    return
                await self._runner.resume(run)
            except ClientError:
                pass  # another process has taken it
            except SpindleError as error:
                self._note(f"run {run} went on after its wait and failed: {error.message}")
            except Exception as error:  # noqa: BLE001 - a task's top: the others go on
                self._note(f"run {run} could not be continued after its wait: {error!r}")
                return
            self._not_before.pop(run, None)


def said_to_all(question: Interruption) -> str:
    """Returns a message for anybody who reads the store: the question itself may hold the user's own
    words."""
    what = {"approval": "approval", "input": "an answer", "wait": "its time"}.get(question.kind, "consent")
    return f"{question.tool or question.source or 'a tool'} waits for {what}"
