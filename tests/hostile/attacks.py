"""Using hostile servers as anybody would, and judging how that ended."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from corpus.servers import TIMEOUT, HostileServer

from spindle.app import Spindle
from spindle.calls.options import CallOptions
from spindle.errors import Interruption, SpindleError

AT_ONCE = 16


async def use(app: Spindle, case: HostileServer) -> str | None:
    """Lists the tools of a server and calls one. Returns what went otherwise than it should, or None."""
    report = (await app.sync(case.name))[0]
    if report.error is not None:
        said = str(report.error["message"])
        return None if case.ends == "refused" and case.as_it_should(said) else f"its list: {said[:300]}"
    left_out = "; ".join(item.reason for item in report.left_out)
    if case.ends == "refused" or (case.ends == "left out") != bool(left_out):
        return f"its list was taken, without {left_out or 'any'}"
    if case.ends == "left out" and not case.as_it_should(left_out):
        return f"a tool was left out because {left_out[:300]}"
    if case.ends == "empty":
        return None if report.tools == 0 else "it has tools"
    try:
        options = CallOptions(timeout=TIMEOUT) if case.waits else CallOptions()
        result = await app.call(f"{case.name}.echo", {}, options)
    except SpindleError as error:
        return (
            None if case.ends == "call" and case.as_it_should(error.message) else f"the call: {error.message}"
        )
    except Interruption as pause:
        return None if case.ends == "paused" else f"the call: {pause.message}"
    if case.ends in ("fine", "left out"):
        return None if not result.is_error else f"the call: {result.text[:300]}"
    return f"the call was answered: {result.text[:300]}"


async def use_all(app: Spindle, cases: Sequence[HostileServer], at_once: int = AT_ONCE) -> dict[str, str]:
    """By name of a case, what went otherwise than it should."""
    room = asyncio.Semaphore(at_once)

    async def one(case: HostileServer) -> tuple[str, str | None]:
        async with room:
            return case.name, await use(app, case)

    ended = await asyncio.gather(*(one(case) for case in cases))
    return {name: problem for name, problem in ended if problem is not None}
