"""`spindle trust`: shows what a workspace would run, and marks it as trusted."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import click

from spindle.cli.context import CliContext, command
from spindle.cli.errors import PAUSED


@command("trust")
@click.argument("path", required=False, type=click.Path(path_type=Path))
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--exact/--not-exact", default=None, help="Ask at every change, also at your own edits.")
@click.option("--list", "listed", is_flag=True, help="List the trusted workspaces.")
@click.option("--remove", is_flag=True, help="Trust the workspace no longer.")
def trust(
    cli: CliContext, path: Path | None, yes: bool, exact: bool | None, listed: bool, remove: bool
) -> int | None:
    """Trust the workspace at PATH, or the nearest one: show what it would run, and ask.

    Nothing of a workspace that you found somewhere runs before you trust it. After that you are asked again
    only if somebody else may have changed it, such as by `git pull`.

    \b
    spindle trust
    spindle trust ~/src/project --yes
    spindle trust --list
    spindle trust --remove
    """
    from spindle.cli.errors import UsageMistakeError

    if listed and (remove or yes or exact is not None or path is not None):
        raise UsageMistakeError("--list goes alone")
    if remove and (yes or exact is not None):
        raise UsageMistakeError("--remove goes with nothing but a PATH")
    if path is not None:
        cli.workspace = str(path)
    if listed:
        return _list(cli)
    if remove:
        return _remove(cli)
    return _trust(cli, yes=yes, exact=exact)


def _list(cli: CliContext) -> None:
    from spindle.cli.output import when
    from spindle.settings.places import trust_marks

    found = list(trust_marks().all())
    if cli.output.as_json:
        cli.output.json([{"workspace": mark.path, "exact": mark.exact, "at": mark.at} for mark in found])
        return
    rows = [
        (mark.path, when(mark.at), "every change" if mark.exact else "changes by others") for mark in found
    ]
    if rows:
        cli.output.table(("WORKSPACE", "TRUSTED", "ASKS AT"), rows, drop=("ASKS AT",))
    else:
        cli.output.note("no workspace is trusted yet")


def _remove(cli: CliContext) -> None:
    from spindle import settings
    from spindle.errors import NotFoundError
    from spindle.settings.places import trust_marks

    # Not `workspace_root`: the folder may be gone by now.
    given = Path(cli.workspace).expanduser() if cli.workspace else settings.workspace_root(None)
    path = os.path.realpath(given or Path.cwd())
    if os.path.basename(path) == settings.FILE_NAME:
        path = os.path.dirname(path)
    if not trust_marks().remove(path):
        raise NotFoundError(f"{path} is not trusted anyway", hint="`spindle trust --list` lists what is")
    if cli.output.as_json:
        cli.output.json({"removed": path})
    else:
        cli.output.line(f"{path} is trusted no longer")


def _trust(cli: CliContext, *, yes: bool, exact: bool | None) -> int:
    from spindle import settings
    from spindle.cli.trust_view import ask_to_trust, lines_of, powers_of
    from spindle.errors import ConfigurationError, UntrustedError
    from spindle.trust import judge, shown

    found = settings.load(cli.workspace, trusted=False)
    if not found.is_workspace:
        raise ConfigurationError(
            f"there is no workspace: no {settings.FILE_NAME} at or above {found.root}",
            hint="name one: `spindle trust PATH`",
        )
    # By the mark alone: it is for later, when the environment may say nothing.
    before, root = judge(found.root, found.cover, settings.trust_marks()), shown(str(found.root))
    found = replace(found, verdict=before)
    if before.trusted or yes:
        if not before.trusted and not cli.output.as_json:
            for line in lines_of(found, found.cover()):
                cli.output.aside(line)
        if not before.trusted or exact is not None:
            found.trust(exact=exact)
    elif cli.can_ask:
        if not ask_to_trust(cli.output, found, exact=exact):
            raise UntrustedError(f"{root} stays untrusted")
    elif not cli.output.as_json:
        for line in lines_of(found, found.cover()):
            cli.output.line(line)
        raise UntrustedError(f"{root} stays untrusted: nobody can be asked here", hint="give --yes")
    now = judge(found.root, found.cover, settings.trust_marks())
    if cli.output.as_json:
        would = powers_of(found, found.cover()).to_dict()
        told = {"workspace": str(found.root), "trusted": now.trusted, "reason": now.reason or None}
        cli.output.json({**told, "changed": list(before.changed), "would": would})
        return 0 if now.trusted else PAUSED
    cli.output.line(f"{root} is trusted" + (" already" if before.trusted else ""))
    return 0
