"""Prints the result of a flow, for a person or a program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.cli.context import CliContext
    from spindle.domain.call import Result
    from spindle.flows.flow import Flow


def print_flow_result(cli: CliContext, run_id: str, result: Result) -> None:
    """Prints the result of a run of a flow."""
    from spindle.cli.results import print_result

    if cli.output.as_json:
        cli.output.json({"run_id": run_id, **result.to_dict()})
    elif result.has_structured and not result.is_error:
        print_value(cli, result.structured)
    else:
        print_result(cli, result)


def print_value(cli: CliContext, value: Any) -> None:
    """Prints a value: text as it is, anything else as JSON."""
    if isinstance(value, str) and not cli.output.as_json:
        cli.output.line(value.removesuffix("\n"))
    else:
        cli.output.json(value)


async def print_key(cli: CliContext, app: Spindle, flow: Flow, run_id: str, result: Result, key: str) -> None:
    """Prints one output of the flow, or the value that its nodes left under a shared key."""
    from spindle.domain.json_schema import is_object
    from spindle.errors import NotFoundError, did_you_mean
    from spindle.flows.expressions.errors import ExpressionError
    from spindle.flows.expressions.paths import MISSING, parse_path
    from spindle.flows.shared import SharedLookup

    outputs: Mapping[str, Any] = result.structured if is_object(result.structured) else {}
    if key in outputs:
        print_value(cli, outputs[key])
        return
    shared = await app.flows.left(run_id, flow)
    try:
        path = parse_path(key.removeprefix("${").removesuffix("}"))
    except ExpressionError as error:
        raise NotFoundError(f"--output: {error}") from None
    found = SharedLookup(shared, outputs)(path)
    if found is MISSING:
        known = [*outputs, *(name for name in shared if name not in outputs)]
        raise NotFoundError(
            f"the run is done, and left nothing under {key!r}",
            hint=did_you_mean(key, known, f"there are {', '.join(known)}"),
        )
    print_value(cli, found)
