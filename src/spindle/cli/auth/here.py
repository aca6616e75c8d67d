"""Logging in within another command, once it turns out that a source wants a consent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.cli.context import CliContext
    from spindle.domain.identity import Principal

T = TypeVar("T")


async def log_in_here(cli: CliContext, app: Spindle, source: str, who: Principal | None = None) -> bool:
    """Offers the person at the terminal to log in to a source. True once they have."""
    from spindle.cli.auth.login import in_a_browser
    from spindle.domain.identity import LOCAL

    if not cli.can_ask or cli.once is not None:
        return False
    said = await cli.ask(f"log in to {source} now? [Y/n] ")
    if said is None or said.lower() not in ("", "y", "yes"):
        return False
    done = await in_a_browser(cli, app, source, (), False, who or LOCAL, None)
    if done.denied:
        cli.output.note(f"{done.provider} gave no access: {done.denied}")
    return not done.denied


async def or_log_in(cli: CliContext, app: Spindle, work: Callable[[], Awaitable[T]]) -> T:
    """Returns what the work returns, after logins where it wants them. Raises the request for a consent that
    nobody gives here."""
    from spindle.errors import AuthorizationRequired

    while True:
        try:
            return await work()
        except AuthorizationRequired as asked:
            source = asked.source
            if cli.can_ask and source is not None:
                cli.output.aside(f"spindle: {asked.message}")
            if source is None or not await log_in_here(cli, app, source):
                raise
