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
async def show(cli: CliContext, tool: str, as_node: bool) -> None:
    """Show one tool: its parameters, hints and origin.

    The last part of a name is enough if only one tool has it.
    """
    if (untrusted := cli.untrusted()) is not None:
        from spindle.cli.untrusted import stored_tool

        found = await stored_tool(untrusted, tool)
    else:
        async with cli.open() as app:
            found = await app.show(tool)
    if as_node:
        _print_node(cli, found)
    elif cli.output.as_json:
        cli.output.json(found.to_dict())
    else:
        _print(cli, found)


def _print(cli: CliContext, tool: Tool) -> None:
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


def _print_node(cli: CliContext, tool: Tool) -> None:
    from spindle.flows.interface import of_tool

    interface = of_tool(tool)
    if cli.output.as_json:
        cli.output.json(interface.to_dict())
        return
    for line in interface.to_text().splitlines():
        cli.output.line(line)
    cli.output.line()
    cli.output.line(f"pure:        {'yes' if interface.pure else 'no'}")
    cli.output.line(f"source:      {tool.source} ({tool.kind})")
    cli.output.line(f"version:     {interface.version}")
