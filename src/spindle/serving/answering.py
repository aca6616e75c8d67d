"""Lists what waits for one person and what was answered, and takes answers.

Whoever answers is a principal, or None: the owner of the workspace, who answers from outside of all calls and
sees the pauses of everybody.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from spindle.domain.json_schema import JsonObject
from spindle.errors import InvalidArgumentsError, NotFoundError, did_you_mean
from spindle.serving.going_on import RunsGoingOn

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.domain.identity import Principal
    from spindle.domain.run import Pause
    from spindle.runs.answered import Answered
    from spindle.runs.outcomes import OpenPause

logger = logging.getLogger("spindle")

NEWEST: Final = 200
"""Answered pauses that are looked at, for those that a person may see."""
_FIELDS: Final = ("answer", "refused")


async def waiting_for(app: Spindle, person: Principal | None) -> list[OpenPause]:
    """Returns what a person may answer, and what they asked of others, the oldest first."""
    if person is None:
        found = await app.pauses()
    else:
        found = [*await app.pauses(principal=person), *await app.pauses(approver=person)]
    by_token = {pause.token: pause for pause in found if pause.kind != "wait"}
    return sorted(by_token.values(), key=lambda pause: pause.created_at)


def may_answer(app: Spindle, pause: OpenPause, person: Principal | None) -> bool:
    """True if a person may do more with a pause of theirs than refuse it."""
    return person is None or pause.kind != "approval" or app.runner.may_approve(pause, person)


async def answered_for(
    app: Spindle, person: Principal | None, limit: int
) -> list[tuple[OpenPause, Answered]]:
    """Returns what was answered of all that a person may see, the newest first."""
    found: list[tuple[OpenPause, Answered]] = []
    for pause in await app.store.answered(NEWEST):
        said = app.runner.answer_of(pause) if _may_see(app, pause, person) else None
        if said is not None:
            found.append((app.runner.details(pause), said))
    found.sort(key=lambda one: -(one[1].at or one[0].created_at))
    return found[:limit]


async def find_pause(
    app: Spindle, token: str, person: Principal | None
) -> tuple[OpenPause, Answered | None, bool]:
    """Returns a pause, what was answered, and whether it still waits. Raises NotFoundError also for what this
    person may not see."""
    pause = await app.store.pause(token)
    if pause is None or not _may_see(app, pause, person):
        raise NotFoundError(
            "nothing of yours waits here", hint="it may have been asked of somebody else, or removed"
        )
    return app.runner.details(pause), app.runner.answer_of(pause), pause.state == "waiting"


def _may_see(app: Spindle, pause: Pause, person: Principal | None) -> bool:
    if pause.kind == "wait" or pause.sealed is None:
        return False
    if person is None or pause.principal.id == person.id:
        return True
    return pause.kind == "approval" and app.runner.may_approve(pause, person)


class TakenAnswers:
    """Takes answers, and lets the runs go on behind the request that brought them."""

    def __init__(self, app: Spindle) -> None:
        self._app = app
        self._going_on = RunsGoingOn("an answer", partial(logger.warning, "%s"))

    async def take(self, token: str, body: JsonObject, person: Principal | None) -> JsonObject:
        """Takes `{"answer": …}` or `{"refused": reason}`. An answer that does not fit leaves the pause as it
        is; who is late is told who was first."""
        for name in body:
            if name not in _FIELDS:
                raise InvalidArgumentsError(
                    f"an answer has no {name!r}", hint=did_you_mean(name, _FIELDS, "send answer or refused")
                )
        refused = body.get("refused")
        if "refused" in body and ("answer" in body or not isinstance(refused, str)):
            raise InvalidArgumentsError("`refused` is the reason, a text, and goes without `answer`")
        pause, _, _ = await find_pause(self._app, token, person)
        going_on = await self._app.runner.accept(pause, body.get("answer"), refused=refused, principal=person)
        if going_on is not None:
            self._going_on.begin(going_on)
        return {"token": token, "run": pause.run_id, "answered": True}


def as_json(waiting: Sequence[OpenPause], answered: Sequence[tuple[OpenPause, Answered]]) -> JsonObject:
    """Returns both lists as JSON."""
    return {
        "waiting": [pause.to_dict() for pause in waiting],
        "answered": [{**pause.to_dict(), "answered": said.to_dict()} for pause, said in answered],
    }
