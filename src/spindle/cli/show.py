"""`spindle show TOOL`: shows one tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from spindle.cli.completion import complete_tool
from spindle.cli.context import CliContext, command
from spindle.cli.once import once_option

if TYPE_CHECKING:
    from spindle.domain.tool import Tool


@command("show")
@once_option
@click.argument("tool", shell_complete=complete_tool)
@click.option("--as-node", is_flag=True, help="As a node of a flow: its inputs, outputs and actions.")
@click.option(
    "--docstring", is_flag=True, help="With --as-node: as the docstring of a node, as pflow has it."
)
@click.option("--paths", is_flag=True, help="The paths that its last result offers to templates of flows.")
async def show(cli: CliContext, tool: str, as_node: bool, docstring: bool, paths: bool) -> None:
    """Show one tool: its parameters, hints and origin.

    The last part of a name is enough if only one tool has it. --paths looks at the last result that is on
    record, of `spindle call` or of a node of a flow, or else at what the tool promises.
    """
    from spindle.cli.errors import UsageMistakeError

    if docstring and not as_node:
        raise UsageMistakeError("--docstring is for --as-node", f"spindle show {tool} --as-node --docstring")
    server: str | None = None

    if paths:
        from spindle.cli.paths import print_paths

        async with cli.open() as app:
            await print_paths(cli, app, await app.show(tool))
        return
    if (untrusted := cli.untrusted()) is not None:
        from spindle.cli.untrusted import stored_tool

        found = await stored_tool(untrusted, tool)
    else:
        async with cli.open() as app:
            found = await app.show(tool)
            state = (await app.catalog.states()).get(found.source)
            server = state.server if state is not None else None
    if as_node:
        _print_node(cli, found, server, docstring=docstring)
    elif cli.output.as_json:
        cli.output.json(found.to_dict() | {"server": server})
    else:
        _print(cli, found, server)


def _print(cli: CliContext, tool: Tool, server: str | None) -> None:
    from spindle.cli.describe import hints_in_words, print_parameters, print_text
    from spindle.domain.json_schema import parameters

    output = cli.output
    title = tool.spec.title
    output.line(f"{tool.name}  ({title})" if title and title != tool.name else tool.name)
    if tool.description:
        output.line()
        print_text(output, tool.description)
    output.line()
    print_parameters(output, parameters(tool.input_schema))
    output.line()
    facts = {
        "source": f"{tool.source} ({tool.kind})",
        "server": server,
        "remote name": tool.spec.remote_name,
        "place": tool.spec.place,
        "hints": hints_in_words(tool),
        "tags": " ".join(tool.spec.tags),
        "returns": "structured data (--json shows its schema)" if tool.output_schema else "",
        "fingerprint": tool.fingerprint,
    }
    for name, fact in facts.items():
        if fact:
            output.line(f"{name + ':':<13}{fact}")
    for fault in tool.faults:
        output.line(f"{'loosened:':<13}{fault}")


def _print_node(cli: CliContext, tool: Tool, server: str | None, *, docstring: bool) -> None:
    from spindle.flows.interface import of_tool

    interface = of_tool(tool)
    if cli.output.as_json:
        cli.output.json(interface.to_dict() | {"server": server})
        return
    if docstring:
        for line in interface.to_docstring().splitlines():
            cli.output.line(line)
        cli.output.line()
        name = f"{tool.source}/{tool.spec.remote_name}"
        cli.output.line(f"Source: {name} ({server or tool.kind}), fingerprint {interface.version}")
        return
    for line in interface.to_text().splitlines():
        cli.output.line(line)
    cli.output.line()
    cli.output.line(f"pure:        {'yes' if interface.pure else 'no'}")
    cli.output.line(f"source:      {tool.source} ({tool.kind})")
    if server is not None:
        cli.output.line(f"server:      {server}")
    cli.output.line(f"version:     {interface.version}")
