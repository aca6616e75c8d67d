"""`spindle auth login SOURCE`: gives consent in a browser, on this machine or another device."""

from __future__ import annotations

import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from spindle.cli.completion import complete_source
from spindle.cli.context import CliContext, command
from spindle.cli.options import SECONDS

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.auth.oauth import Completed
    from spindle.domain.identity import Principal

T = TypeVar("T")


@command("login")
@click.argument("source", shell_complete=complete_source)
@click.option("--scope", "scopes", multiple=True, metavar="SCOPE", help="Ask for this scope too. Repeatable.")
@click.option("--device", is_flag=True, help="Enter a code on another device, if the provider supports it.")
@click.option("--no-browser", is_flag=True, help="Only print the link.")
@click.option("--as", "user", metavar="USER", help="For this user instead of yourself.")
@click.option(
    "--timeout", type=SECONDS, metavar="SECONDS", help="Seconds to wait; the link is valid for 600."
)
@click.option(
    "--yes", is_flag=True, help="Configure `auth` for a source whose server wants OAuth without asking."
)
def login(
    cli: CliContext,
    source: str,
    scopes: tuple[str, ...],
    device: bool,
    no_browser: bool,
    user: str | None,
    timeout: float | None,
    yes: bool,
) -> int:
    """Give a source your consent.

    The link is opened in your browser, and printed in case there is none. Afterwards a source that was never
    synced is asked for its tools.
    """
    from spindle.domain.identity import LOCAL, Principal

    who = Principal(user) if user else LOCAL
    cli.run(_prepare(cli, source, yes))
    return cli.run(_login(cli, source, scopes, device, no_browser, who, timeout))


async def _prepare(cli: CliContext, source: str, yes: bool) -> None:
    """Adds `auth` to a source whose server wants OAuth, if the user agrees."""
    async with cli.open() as app:
        if app.catalog.sources.config(source).auth is not None or not await app.auth.wants_oauth(source):
            return
        file = Path(app.settings.origin(source))
    if not yes and not (sys.stdin.isatty() and _agrees(source, file.name)):
        from spindle.errors import ConfigurationError

        raise ConfigurationError(
            f"{source} wants OAuth, and its settings do not say so",
            hint=f'set `auth = {{ type = "oauth" }}` in [sources.{source}], or give --yes to have it written',
            source=source,
        )
    write_oauth(cli, source, file)


def _agrees(source: str, file: str) -> bool:
    question = f"{source} wants OAuth, and its settings do not say so. Write it to {file}?"
    return click.confirm(question, default=True, err=True)


def write_oauth(cli: CliContext, source: str, file: Path) -> None:
    """Writes OAuth as the `auth` of a source in spindle.toml."""
    from spindle.settings.edit import set_in_source

    set_in_source(file, source, "auth", {"type": "oauth"})
    cli.output.note(f'wrote `auth = {{ type = "oauth" }}` to [sources.{source}] in {file}')


async def _login(
    cli: CliContext,
    source: str,
    scopes: tuple[str, ...],
    device: bool,
    no_browser: bool,
    who: Principal,
    timeout: float | None,
) -> int:
    from spindle.cli.errors import exit_code
    from spindle.cli.sync_report import print_report
    from spindle.errors import PermissionDeniedError

    async with cli.open() as app:
        if device:
            done = await _on_another_device(cli, app, source, scopes, who, timeout)
        else:
            done = await in_a_browser(cli, app, source, scopes, no_browser, who, timeout)
        if done.denied:
            raise PermissionDeniedError(
                f"{done.provider} gave no access: {done.denied}",
                hint=f"run `spindle auth login {source}` again to decide otherwise",
                source=source,
            )
        report = None
        if source in app.catalog.unsynced():
            cli.output.status(f"asking {source} for its tools …")
            report = (await app.sync(source, principal=who))[0]
    if cli.output.as_json:
        cli.output.json(
            {
                "source": source,
                "user": who.id,
                "provider": done.provider,
                "scopes": list(done.scopes),
                "sync": report.to_dict() if report else None,
            }
        )
    else:
        granted = f" ({' '.join(done.scopes)})" if done.scopes else ""
        cli.output.line(f"{who.id} has given access to {source}{granted}")
        if report:
            print_report(cli, report)
    return exit_code(report.error["category"]) if report and report.error else 0


async def in_a_browser(
    cli: CliContext,
    app: Spindle,
    source: str,
    scopes: tuple[str, ...],
    no_browser: bool,
    who: Principal,
    timeout: float | None,
) -> Completed:
    """Opens the link, waits until the user comes back to this process, and gets their tokens."""
    from spindle.auth.access import DEFAULT_REDIRECT
    from spindle.cli.auth.loopback import Loopback
    from spindle.errors import SpindleError

    cli.output.status(f"asking {source} where to log in …")
    async with Loopback.listening(app.settings.auth.redirect_uri, DEFAULT_REDIRECT) as loopback:
        asked = await app.auth.begin(source, who, scopes=scopes, redirect_uri=loopback.redirect_uri)
        cli.output.aside(
            f"{source} needs your consent at {asked.provider}. Open this link:\n\n  {asked.url}\n"
        )
        if not no_browser:
            from spindle.cli.browser import open_browser

            open_browser(asked.url)
        cli.output.status("waiting for you to come back …")
        visit = await _in_time(loopback.visit(asked.state), asked.provider, asked.expires_at, timeout)
        cli.output.status(f"getting tokens from {asked.provider} …")
        try:
            done = await app.auth.complete(
                visit.code,
                visit.state,
                visit.iss,
                error=visit.error,
                error_description=visit.error_description,
                principal=who,
            )
        except SpindleError as error:
            visit.answer("That did not work", f"{error.message}. The terminal says what to do.")
            raise
        except BaseException:
            visit.answer("That did not work", "The login was cancelled.")
            raise
        if done.denied:
            visit.answer("No access was given", "You can close this page and go back to the terminal.")
        else:
            visit.answer("Access was given", "You can close this page and go back to the terminal.")
        return done


async def _on_another_device(
    cli: CliContext, app: Spindle, source: str, scopes: tuple[str, ...], who: Principal, timeout: float | None
) -> Completed:
    asked = await app.auth.begin_device(source, who, scopes=scopes)
    cli.output.aside(
        f"{source} needs your consent at {asked.provider}. On any device, open\n\n"
        f"  {asked.verification_url}\n\nand enter the code {asked.user_code}"
    )
    if asked.complete_url:
        cli.output.aside(f"(or open {asked.complete_url})")
    cli.output.status("waiting for you to decide …")
    return await _in_time(app.auth.wait_device(asked), asked.provider, asked.expires_at, timeout)


async def _in_time(
    work: Coroutine[Any, Any, T], provider: str, expires_at: float, timeout: float | None
) -> T:
    import asyncio
    import time

    from spindle.errors import CallTimeoutError

    left = max(expires_at - time.time(), 1.0)
    limit = left if timeout is None else min(left, timeout)
    try:
        async with asyncio.timeout(limit):
            return await work
    except TimeoutError:
        raise CallTimeoutError(
            f"nobody came back from {provider} within {limit:.0f} s",
            hint="run the same command again for a new link",
        ) from None
