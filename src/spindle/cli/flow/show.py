"""`spindle flow show`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from spindle.cli.completion import complete_flow
from spindle.cli.context import CliContext, command

if TYPE_CHECKING:
    from spindle.cli.output import Output
    from spindle.flows.definition import FlowDefinition, NodeDefinition
    from spindle.flows.text.files import Loaded


@command("show")
@click.argument("flow", shell_complete=complete_flow)
@click.option("--pipe", is_flag=True, help="As the line of tools that makes the same flow.")
@click.option("--yaml", "as_yaml", is_flag=True, help="As YAML.")
async def show(cli: CliContext, flow: str, pipe: bool, as_yaml: bool) -> None:
    """Show a flow: inputs, nodes, edges, outputs. FLOW is a name, a file, or a line of tools."""
    from spindle.errors import FlowError
    from spindle.flows.text.files import write
    from spindle.flows.text.pipe import to_pipe
    from spindle.flows.text.writing import to_document

    async with cli.open() as app:
        loaded = await find_flow(app, flow)
        found = loaded.definition
        line = await to_pipe(found, app.show) if pipe else None
    if pipe:
        if line is None:
            raise FlowError(
                f"{found.name or 'this flow'} cannot be written as a line of tools",
                hint="`spindle flow show` without --pipe shows it",
            )
        cli.output.line(line)
    elif as_yaml:
        cli.output.line(write(found, "yaml").rstrip("\n"))
    elif cli.output.as_json:
        cli.output.json(to_document(found))
    else:
        print_flow(cli.output, found, loaded.place)


async def find_flow(app: Any, text: str) -> Loaded:
    """Returns the flow that a text means, with its definition. Raises FlowError for one written in Python."""
    from spindle.domain.identity import LOCAL
    from spindle.errors import FlowError
    from spindle.flows.text.files import Loaded

    found = await app.flows.find(text, LOCAL)
    if not isinstance(found, Loaded):
        raise FlowError(f"{text} is written in Python", hint="look at the program that defines it")
    return found


def print_flow(output: Output, flow: FlowDefinition, place: str) -> None:
    """Prints a flow: its inputs, nodes, edges and outputs."""
    from spindle.cli.describe import print_parameters
    from spindle.domain.json_schema import parameters
    from spindle.flows.signature import input_schema

    title = flow.name or "a flow without a name"
    output.line(f"{title}  ({place})" if place else title)
    if flow.description:
        output.line(f"\n  {flow.description}")
    if flow.inputs:
        output.line("\nInputs:")
        print_parameters(output, parameters(input_schema(dict(flow.inputs))))
    if flow.params:
        output.line("\nParams:")
        for name, value in flow.params.items():
            output.line(f"  {name} = {shown_value(value)}")
    output.line("\nNodes:")
    _print_nodes(output, flow, "  ")
    if flow.outputs is not None:
        output.line("\nOutputs:")
        for name, item in flow.outputs.items():
            output.line(f"  {name} = {shown_value(item.value)}")


def _print_nodes(output: Output, flow: FlowDefinition, pad: str) -> None:
    widest = max(len(node.id) for node in flow.nodes)
    for node in flow.nodes:
        first = " (start)" if node.id == flow.start_id and flow.nodes[0].id != node.id else ""
        output.line(f"{pad}{node.id.ljust(widest)}  {node.says}{first}")
        inner = pad + " " * (widest + 4)
        for name, value in node.params.items():
            output.line(f"{inner}{name} = {shown_value(value)}")
        for name, value in (node.transform or {}).items():
            output.line(f"{inner}{name} = {shown_value(value)}")
        for name, path in node.inputs.items():
            output.line(f"{inner}{name} ← {path}")
        for name, key in node.outputs.items():
            output.line(f"{inner}{name} → {key}")
        for line in _settings(node):
            output.line(f"{inner}{line}")
        if node.flow is not None:
            _print_nodes(output, node.flow, inner)
        for edge in flow.edges:
            if edge.source == node.id:
                action = "then" if edge.way == "default" else f"on {edge.way}"
                output.line(f"{inner}{edge.way if edge.when else action}: {edge.target}")


def _settings(node: NodeDefinition) -> list[str]:
    lines: list[str] = []
    if node.batch is not None:
        lines.append(
            f"for each {node.batch.item} of {shown_value(node.batch.over)}, {node.batch.concurrency} at once"
        )
    if node.loop is not None:
        carried = ", ".join(f"{name} = {shown_value(value)}" for name, value in node.loop.carry.items())
        lines.append(f"while {node.loop.repeat_while}, at most {node.loop.limit} rounds; from {carried}")
    if node.retry.attempts > 1:
        lines.append(f"up to {node.retry.attempts} attempts, {node.retry.wait:g} s apart")
    if node.timeout is not None:
        lines.append(f"timeout {node.timeout:g} s")
    if node.approval is not None:
        lines.append(f"only with approval of {', '.join(['the owner', *node.approval.by])}")
    if node.cache:
        lines.append("may be answered from the cache")
    if node.fail_when is not None:
        lines.append(f"fails when {node.fail_when}")
    if node.join is not None:
        lines.append(node.join.words)
    if node.parse is not None:
        lines.append(f"its text is read as {node.parse}")
    return lines


def shown_value(value: Any) -> str:
    """A value as it is shown in a flow: a template as it is written, anything else as JSON."""
    if isinstance(value, str) and value.startswith("${") and value.endswith("}"):
        return value
    return json.dumps(value, ensure_ascii=False)
