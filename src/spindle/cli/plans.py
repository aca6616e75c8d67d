"""What a flow would do, on paper: for `run --dry-run`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spindle.cli.context import CliContext
    from spindle.domain.json_schema import JsonObject
    from spindle.flows.plan import Planned


def print_plan(cli: CliContext, name: str, inputs: JsonObject, planned: Sequence[Planned]) -> None:
    output = cli.output
    if output.as_json:
        nodes = [node.to_dict() for node in planned]
        output.json({"flow": name or None, "inputs": inputs, "nodes": nodes})
        return
    widest = max(len(node.node) for node in planned)
    following = {one.node: other.node for one, other in pairwise(planned)}
    for node in planned:
        output.line(f"{node.node.ljust(widest)}  {node.tool or f'asks a person: {node.ask}'}".rstrip())
        pad = " " * (widest + 4)
        if node.over is not None:
            output.line(f"{pad}for each of {_shown(node.over)}")
        for key, value in node.arguments.items():
            output.line(f"{pad}{key} = {_shown(value)}")
        for key in node.missing:
            output.line(f"{pad}{key} = ? nothing gives it")
        for action, target in node.next.items():
            if action != "default":
                output.line(f"{pad}on {action}: {target}")
            elif target != following.get(node.node, "").partition("/")[0] and target != following.get(
                node.node
            ):
                output.line(f"{pad}then: {target}")
    missing = [f"{key} of {node.node}" for node in planned for key in node.missing]
    output.note("nothing was called" + (f"; nothing gives {', '.join(missing)}" if missing else ""))


def _shown(value: Any) -> str:
    if isinstance(value, str) and value.startswith("${") and value.endswith("}"):
        return value
    return json.dumps(value, ensure_ascii=False)
