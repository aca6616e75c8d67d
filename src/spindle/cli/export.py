"""`spindle export`: writes the catalog as a document for other software."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from spindle.cli.context import CliContext, command
from spindle.cli.filters import as_glob, filters, require_kind, require_source

if TYPE_CHECKING:
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.serve import ServeConfig
    from spindle.domain.tool import Tool


@command("export")
@click.option("--openapi", is_flag=True, help="As an OpenAPI 3.1 document.")
@click.option("--utcp", is_flag=True, help="As a UTCP manual.")
@click.option("--sse", is_flag=True, help="With --utcp: calls answer with a stream of events.")
@click.option("--out", metavar="FILE", type=click.Path(path_type=Path), help="Write to a file, not stdout.")
@click.option("--url", metavar="BASE", help="The URL at which readers reach `spindle serve --rest`.")
@click.option(
    "--group",
    metavar="NAME",
    help="Only tools that this group of [serve] sees; by default the default group.",
)
@filters
def export(
    cli: CliContext,
    openapi: bool,
    utcp: bool,
    sse: bool,
    out: Path | None,
    url: str | None,
    group: str | None,
    only: str | None,
    kind: str | None,
    tag: str | None,
    pattern: str | None,
) -> None:
    """Write the catalog as a UTCP manual or an OpenAPI document.

    The document describes calls that `spindle serve --rest` answers.
    """
    from spindle.cli.errors import UsageMistakeError
    from spindle.ports.store import ToolFilter

    if openapi and utcp:
        raise UsageMistakeError(
            "--openapi and --utcp do not go together", "export twice, with one of them each"
        )
    if not openapi and not utcp:
        raise UsageMistakeError("say which document: --openapi or --utcp")
    if sse and not utcp:
        raise UsageMistakeError("--sse goes with --utcp", "an OpenAPI document names the stream by itself")
    where = ToolFilter(only, kind, tag, as_glob(pattern))
    config = _config(cli, url)
    _require_group(group, config)
    form = "openapi" if openapi else "utcp"
    cli.run(_export(cli, form, out, config, where, group or config.default_agent_group, sse=sse))


def _config(cli: CliContext, url: str | None) -> ServeConfig:
    from pydantic import ValidationError

    from spindle.cli.errors import UsageMistakeError
    from spindle.domain.serve import ServeConfig

    config = cli.settings().serve()
    if url is None:
        return config
    try:
        return ServeConfig.model_validate({**config.model_dump(), "url": url})
    except ValidationError as error:
        message = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise UsageMistakeError(f"--url {message}") from None


def _require_group(group: str | None, config: ServeConfig) -> None:
    from spindle.cli.errors import UsageMistakeError
    from spindle.errors import suggest

    if group is not None and group not in {*config.groups, config.default_agent_group}:
        meant = suggest(group, config.groups)
        hint = f"did you mean {meant}?" if meant else "groups are in [serve.groups.NAME]"
        raise UsageMistakeError(f"there is no group {group!r}", hint)


async def _export(
    cli: CliContext, form: str, out: Path | None, config: ServeConfig, where: object, group: str, *, sse: bool
) -> None:
    from spindle.cli.output import plural
    from spindle.cli.tools import note_unsynced
    from spindle.domain.identity import Principal
    from spindle.ports.store import ToolFilter
    from spindle.serving.exposure import Exposed

    assert isinstance(where, ToolFilter)
    async with cli.open() as app:
        require_source(app, where.source)
        exposed, reader = Exposed(config), Principal(groups=frozenset({group}))
        found = await app.catalog.whole_tools(where)
        tools = [tool for tool in found if exposed.shows(reader, tool.name)]
        if found and not tools:
            cli.output.note("[serve] exposes none of these tools, so the document is empty")
        elif not tools:
            require_kind(where.kind)
            cli.output.note("no tool passes the filters, so the document is empty")
        made = _document(form, tools, config, sse=sse)
        if out is None:
            cli.output.json(made)
        else:
            from spindle.domain.json_schema import to_json

            out.write_bytes(to_json(made, default=str) + b"\n")
            cli.output.note(
                f"{plural(len(tools), 'tool')} written to {out}; `spindle serve --rest` answers them"
            )
        await note_unsynced(cli, app)


def _document(form: str, tools: list[Tool], config: ServeConfig, *, sse: bool) -> JsonObject:
    from spindle.rest import openapi, utcp

    url = config.url or f"http://{_shown(config.host)}:{config.port}"
    if form == "openapi":
        return openapi.document(tools, url, wants_token=config.wants_token)
    return utcp.manual(tools, url, wants_token=config.wants_token, template="sse" if sse else "http")


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
