"""`spindle flow draw`."""

from __future__ import annotations

from pathlib import Path

import click

from spindle.cli.completion import complete_flow
from spindle.cli.context import CliContext, command


@command("draw")
@click.argument("flow", shell_complete=complete_flow)
@click.option("--svg", "form", flag_value="svg", help="As SVG, the default for a file ending in .svg.")
@click.option("--mermaid", "form", flag_value="mermaid", help="As Mermaid, the default otherwise.")
@click.option(
    "--out", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="Write it to a file."
)
async def draw(cli: CliContext, flow: str, form: str | None, out: Path | None) -> None:
    """Draw a flow: a name, a file, or a line of tools."""
    from spindle.cli.flow.show import find_flow
    from spindle.flows.draw.pictures import mermaid, svg

    async with cli.open() as app:
        found = await find_flow(app, flow)
    form = form or ("svg" if out is not None and out.suffix.lower() == ".svg" else "mermaid")
    picture = svg(found.definition) if form == "svg" else mermaid(found.definition)
    if out is not None:
        out.write_text(picture, "utf-8")
        if cli.output.as_json:
            cli.output.json({"format": form, "file": str(out)})
        else:
            cli.output.note(f"drawn into {out}")
    elif cli.output.as_json:
        cli.output.json({"format": form, "picture": picture})
    else:
        cli.output.line(picture.rstrip("\n"))
