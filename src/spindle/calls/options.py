"""The options of a call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

from spindle.domain.identity import LOCAL, Principal
from spindle.domain.records import quick_dataclass

if TYPE_CHECKING:
    from spindle.calls.limits import Limit
    from spindle.domain.call import CallRecord, Progress
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.peer import Peer
    from spindle.domain.tool import Tool


@quick_dataclass(frozen=True, slots=True, repr=False)
class CallOptions:
    """The options of a call. They are separate from the arguments, so that no tool's parameter can clash
    with them."""

    principal: Principal = LOCAL
    timeout: float | None = None
    on_progress: Progress | None = None
    limits: Sequence[Limit] = ()
    """Limits to keep besides the source's, such as an agent's."""
    use_cache: bool = True
    cache_ttl: float | None = None
    """Seconds that the result of a pure tool stays good, where its source does not say."""
    on_record: Callable[[CallRecord], None] | None = None
    """Is shown how the call went."""
    on_stage: Callable[[str], None] | None = None
    """Is told the name of each part of the call's path when it begins: `find`, `credential`, `connect`…"""
    keep_result: bool = False
    """Keep the beginning of the result with the record of the call."""
    raise_tool_errors: bool = False
    """Raise the error of its category instead of returning a result with `is_error`."""
    peer: Peer | None = None
    """The caller, if it can be asked or told something while the call runs."""
    answers: JsonObject | None = None
    """The peer's answers to `Result.asked`."""
    meta: JsonObject | None = None
    """The client sends this along in MCP's `_meta`, such as its trace context; MCP servers are sent it."""
    is_clean: bool = False
    """It was decided on before untrusted content entered the run, whatever came in since."""
    for_model: bool = False
    """The result is shown to a model: secrets of the source that it repeats are masked."""
    run_id: str | None = None
    """The id of the run that the call is or becomes. If there is that run, it is continued instead."""
    is_recorded: bool = False
    """With `run_id`: the run is stored from its beginning, so that the call is never made twice."""
    approve: Callable[[Tool, bool], bool] | None = None
    """Asked of a tool, and if it may destroy: True if a person must allow the call, besides where its source
    says so."""

    def __repr__(self) -> str:
        """Only what differs from the default, since it is the default of many parameters."""
        values = [(item.name, getattr(self, item.name), item.default) for item in fields(self)]
        told = [f"{name}={value!r}" for name, value, default in values if value != default]
        return f"CallOptions({', '.join(told)})"


DEFAULT_OPTIONS = CallOptions()
