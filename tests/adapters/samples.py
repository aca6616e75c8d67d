"""Tools that the tests of adapters offer."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable

import spindle

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n not much of a picture").decode()


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def broken() -> str:
    """Never works."""
    raise ValueError("out of order")


def picture() -> list[spindle.Block]:
    """A picture of nothing."""
    return [spindle.Block("text", text="look:"), spindle.Block("image", data=PIXEL, mime_type="image/png")]


@spindle.tool(name="odd.name")
def odd(config: str, run_manager: str = "", self_: str = "") -> str:
    """Takes arguments with names that frameworks like for themselves."""
    return f"{config}/{run_manager}"


def invite(who: str, context: spindle.Context) -> str:
    """Invite somebody to lunch."""
    return f"{who} comes to {context.ask('Where do we eat?')}"


def whoami(context: spindle.Context) -> str:
    """Say for whom this is done."""
    return context.principal.id


class Meeting:
    """A tool that returns only when it was called twice at the same time."""

    def __init__(self) -> None:
        self._here = 0
        self._both = asyncio.Event()

    async def __call__(self, name: str) -> str:
        self._here += 1
        if self._here == 2:
            self._both.set()
        await asyncio.wait_for(self._both.wait(), 30)
        return f"{name} met somebody"


def meeting() -> Callable[..., object]:
    both = Meeting()

    async def meet(name: str) -> str:
        """Meet the other one."""
        return await both(name)

    return meet


def python_tools() -> list[Callable[..., object]]:
    return [add, broken, picture, odd, invite, whoami, meeting()]
