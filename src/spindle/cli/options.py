"""The options that every command accepts."""

from __future__ import annotations

import click

SECONDS = click.FloatRange(min=0, min_open=True)

WORKSPACE = "spindle.workspace"
"""The key in `Context.meta`, for completion, which runs without a `Cli`."""

ONCE = "once"
"""The name of the option `--from`, which opens a source without a workspace."""


def _workspace(ctx: click.Context, _param: click.Parameter, path: str | None) -> None:
    if path:
        ctx.meta[WORKSPACE] = path
        if ctx.obj is not None:
            ctx.obj.workspace = path


def _json(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted and ctx.obj is not None:
        ctx.obj.output.as_json = True


def _debug(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted and ctx.obj is not None:
        ctx.obj.debug = True


def _trust(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted and ctx.obj is not None:
        ctx.obj.trusted = True


def shared_options() -> list[click.Option]:
    """The options that every command accepts too, so that their place does not matter."""
    return [
        click.Option(
            ["-w", "--workspace"],
            metavar="PATH",
            envvar="SPINDLE_WORKSPACE",
            expose_value=False,
            callback=_workspace,
            help="The workspace; by default the nearest one at or above this folder.",
        ),
        click.Option(
            ["--json"], is_flag=True, expose_value=False, callback=_json, help="Print JSON on stdout."
        ),
        click.Option(
            ["--debug"],
            is_flag=True,
            expose_value=False,
            callback=_debug,
            help="Show the whole traceback of a failure.",
        ),
        click.Option(
            ["--trust"],
            is_flag=True,
            expose_value=False,
            callback=_trust,
            help="Trust the workspace, this time only.",
        ),
    ]
