"""`spindle flow save` and `remove`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from spindle.cli.completion import complete_saved_flow
from spindle.cli.context import CliContext, command

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.flows.definition import FlowDefinition
    from spindle.flows.text.files import Format


@command("save")
@click.argument("name")
@click.argument("flow", metavar='"PIPE"|FILE|FLOW')
@click.option("--force", is_flag=True, help="Replace an existing flow.")
@click.option("--format", "form", type=click.Choice(["json", "yaml"]), default="json", show_default=True)
@click.option(
    "--description", metavar="TEXT", help="What the flow does, for people and models that search for tools."
)
async def save(
    cli: CliContext, name: str, flow: str, force: bool, form: Format, description: str | None
) -> int:
    """Save a line of tools, a file or another flow as the flow NAME, in flows/.

    It records the full names and fingerprints of its tools, so that `spindle check` can tell when one has
    changed. The flow is a tool itself: `spindle call NAME`.
    """
    from dataclasses import replace

    from spindle.cli.flow.check import print_problems
    from spindle.cli.flow.show import find_flow
    from spindle.flows.check.check import check

    async with cli.open() as app:
        await check_name(app, name, force=force)
        loaded = await find_flow(app, flow)
        saved = replace(loaded.definition, name=name)
        if description is not None:
            saved = replace(saved, description=description)
        problems = await check(saved, app.show, loaded.positions, loaded.place)
        if any(problem.severity == "error" for problem in problems):
            if cli.output.as_json:
                cli.output.json({"saved": None, "problems": [problem.to_dict() for problem in problems]})
            else:
                print_problems(cli, problems)
            cli.output.aside("spindle: nothing was saved")
            return 12
        place = await save_flow(app, saved, form)
    if cli.output.as_json:
        cli.output.json(
            {"saved": name, "file": place, "problems": [problem.to_dict() for problem in problems]}
        )
    else:
        cli.output.line(f"saved {name} in {place}")
        print_problems(cli, problems)
        flags = "".join(f" --{key}=…" for key, schema in saved.inputs.items() if "default" not in schema)
        piped = "… | " if "stdin" in saved.inputs else ""
        cli.output.aside(f"try: {piped}spindle run {name}{flags if not piped else ''}")
    return 0


async def save_flow(app: Spindle, flow: FlowDefinition, form: Format = "json") -> str:
    """Writes a flow into flows/ under its name, replacing one that exists, and returns the file's name."""
    from spindle.flows.library import with_fingerprints
    from spindle.flows.text.files import write
    from spindle.settings.edit import own_change, replace_file

    library = app.flows.library
    saved = await with_fingerprints(flow, app.show)
    there = [path for path in library.files() if path.stem == flow.name]
    same = [path for path in there if path.suffix == f".{form}"]
    target = same[0] if same else library.folder / f"{flow.name}.{form}"
    with own_change(app.settings.root):
        target.parent.mkdir(parents=True, exist_ok=True)
        replace_file(target, write(saved, form))
        for other in there:
            if other != target:
                other.unlink()  # the same flow in another format
    return library.place(target)


async def check_name(app: Spindle, name: str, *, force: bool) -> None:
    """Raises an error if a flow cannot be saved under this name."""
    import re

    from spindle.cli.errors import UsageMistakeError
    from spindle.errors import ConfigurationError, NotFoundError

    if re.fullmatch(r"[A-Za-z0-9][\w-]*", name) is None:
        raise UsageMistakeError(f"{name!r} cannot be the name of a flow", "use letters, digits, `-` and `_`")
    library = app.flows.library
    for path in library.files():
        if path.stem == name and not force:
            raise ConfigurationError(
                f"{library.place(path)} exists already; nothing was changed",
                hint="use --force to replace it, or choose another name",
            )
    try:
        tool = await app.show(name)
    except NotFoundError:
        pass
    else:
        if tool.name == name and tool.kind != "flows":
            raise ConfigurationError(
                f"there is already a tool {name!r} (of {tool.source})", hint="choose another name"
            )


@command("remove")
@click.argument("name", shell_complete=complete_saved_flow)
async def remove(cli: CliContext, name: str) -> None:
    """Remove a saved flow: its file in flows/."""
    from spindle.errors import NotFoundError, did_you_mean
    from spindle.flows.text.files import Loaded

    async with cli.open() as app:
        library = app.flows.library
        for path, loaded in library.all():
            own = loaded.definition.name if isinstance(loaded, Loaded) else path.stem
            if own == name:
                path.unlink()
                place = library.place(path)
                if cli.output.as_json:
                    cli.output.json({"removed": name, "file": place})
                else:
                    cli.output.line(f"removed {place}")
                return
        hint = did_you_mean(name, library.names(), "`spindle flow list` lists them")
        raise NotFoundError(f"there is no saved flow {name!r}", hint=hint)
