"""`spindle flow draw`."""

from __future__ import annotations

from pathlib import Path

import click

from spindle.cli.completion import complete_flow
from spindle.cli.context import CliContext, command


@command("draw")
@click.argument("flow", shell_complete=complete_flow)
@click.option("--svg", "as_svg", is_flag=True, help="As SVG, the default for a file ending in .svg.")
@click.option("--mermaid", "as_mermaid", is_flag=True, help="As Mermaid, the default otherwise.")
@click.option(
    "--out", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="Write it to a file."
)
async def draw(cli: CliContext, flow: str, as_svg: bool, as_mermaid: bool, out: Path | None) -> None:
    """Draw a flow: a name, a file, or a line of tools."""
    from spindle.cli.errors import UsageMistakeError
    from spindle.cli.flow.show import find_flow
    from spindle.flows.draw.pictures import mermaid, svg

    if as_svg and as_mermaid:
        raise UsageMistakeError(
            "--svg and --mermaid do not go together", "draw it twice, with one of them each"
        )
    async with cli.open() as app:
        found = await find_flow(app, flow)
    is_svg = as_svg or (not as_mermaid and out is not None and out.suffix.lower() == ".svg")
    form = "svg" if is_svg else "mermaid"
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
