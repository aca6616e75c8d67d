"""The cost of noting that a call is begun: steps that leave a doubt beside the same steps that do not."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import spindle
from table import Row

STEPS = 50


async def _measured(rounds: int) -> dict[str, list[tuple[float, float]]]:
    """By what is done, seconds a call that is noted and one that is not, round by round."""

    @spindle.tool
    async def noted(text: str) -> str:
        return text

    @spindle.tool(idempotent=True)
    async def harmless(text: str) -> str:
        return text

    @spindle.tool
    async def in_order(tool: str, context: spindle.Context) -> None:
        for number in range(STEPS):
            await context.call(tool, text=str(number))

    @spindle.tool
    async def at_once(tool: str, context: spindle.Context) -> None:
        await asyncio.gather(*(context.call(tool, text=str(number)) for number in range(STEPS)))

    found: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "spindle.toml").touch()
        async with spindle.open(folder, tools=[noted, harmless, in_order, at_once]) as app:

            async def alone(tool: str) -> None:
                for number in range(STEPS):
                    await app.run(tool, text=str(number))

            works: dict[str, Callable[[str], Awaitable[Any]]] = {
                "steps one after the other": lambda tool: app.run("in_order", tool=tool),
                f"{STEPS} steps at once": lambda tool: app.run("at_once", tool=tool),
                "calls alone, outside of a run": alone,
            }
            for number in range(rounds + 1):
                for what, work in works.items():
                    took: dict[str, float] = {}
                    for tool in ("noted", "harmless") if number % 2 else ("harmless", "noted"):
                        began = time.perf_counter()
                        await work(tool)
                        took[tool] = (time.perf_counter() - began) / STEPS
                    if number:  # the first fills caches
                        found.setdefault(what, []).append((took["noted"], took["harmless"]))
    return found


def doubt(quick: bool) -> list[Row]:
    rows: list[Row] = []
    for what, rounds in asyncio.run(_measured(5 if quick else 30)).items():
        noted = statistics.median(mine for mine, _ in rounds)
        ratio = statistics.median(mine / theirs for mine, theirs in rounds)
        rows.append(Row("doubt", f"wall a call that may have an effect: {what}", noted * 1e6, "µs", ratio))
    return rows
