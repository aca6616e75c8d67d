"""One tool to be tried: its arguments as a form, and what becomes of a call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from spindle.calls.record import MASK
from spindle.console.call_lines import is_editable
from spindle.console.choices import MOST
from spindle.console.screen import Look, Screen
from spindle.console.screens.tools import promises
from spindle.domain.json_schema import JsonObject, is_object
from spindle.errors import SpindleError
from spindle.serving.flow_files import files_of
from spindle.serving.run_control import find_run

if TYPE_CHECKING:
    from spindle.domain.tool import Tool


@dataclass(frozen=True, slots=True)
class TryView:
    """A tool and what its form begins with."""

    tool: Tool
    schema: JsonObject
    value: JsonObject | None
    """The arguments of an earlier call; None: the form begins with the defaults."""
    is_masked: bool
    promises: Sequence[tuple[str, str]]
    may_save: bool
    """True for the owner, who may save it in a flow."""
    flows: Sequence[str] = ()
    """The files of flows that it can be added to."""


async def try_tool(look: Look) -> TryView:
    """Returns a tool by its full name. `call` or `run` in the address: with the arguments of that one."""
    tool = await look.app.catalog.find(look.named["name"], look.principal, look.sees)
    value = await _earlier(look, tool)
    if not is_editable(value):
        value = None
    return TryView(
        tool,
        tool.spec.usable_input,
        value,
        value is not None and _has_mask(value),
        promises(tool.hints),
        look.is_owner,
        files_of(look.app).files()[:MOST] if look.is_owner else (),
    )


async def _earlier(look: Look, tool: Tool) -> JsonObject | None:
    """Returns the arguments of a call or run of this tool that may be seen; else None: a form is no place to
    say why."""
    if key := look.query.get("call"):
        record = await look.app.store.call(key)
        if record is not None and record.tool == tool.name and look.whose in (None, record.principal):
            return record.arguments
    elif id := look.query.get("run"):
        try:
            run = await find_run(look.app, id, look.principal)
            _, given, _ = await look.app.flows.trace(run.id)
        except SpindleError:
            return None
        arguments: Any = given.get("arguments")
        return arguments if run.name == tool.name and is_object(arguments) else None
    return None


def _has_mask(value: Any) -> bool:
    if is_object(value):
        return any(_has_mask(one) for one in value.values())
    if isinstance(value, list):
        return any(_has_mask(one) for one in value)  # pyright: ignore[reportUnknownVariableType]
    return isinstance(value, str) and MASK in value


SCREENS: Final = (Screen("/tools/{name}/try", "try.html", try_tool, "tools"),)
