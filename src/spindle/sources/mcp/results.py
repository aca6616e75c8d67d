"""Results of calls that are more than texts, pictures and sounds, checked by the SDK's models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_types import InputRequiredResult
from mcp_types.methods import validate_server_result

from spindle.mcp_protocol.models import dumped
from spindle.mcp_protocol.names import MODERN_VERSIONS
from spindle.sources.mcp.convert import to_result
from spindle.sources.mcp.questions import Asked

if TYPE_CHECKING:
    from spindle.domain.call import Result
    from spindle.domain.json_schema import JsonObject

_LATER = frozenset({"inputRequests", "requestState", "resultType"})
"""Fields of a result that servers of the handshake era do not know: there they mean nothing."""


def read_answer(raw: JsonObject, version: str) -> Result | Asked:
    """The answer to a call. Raises ValidationError if it is not as this version of the protocol has it."""
    validate_server_result("tools/call", version, raw)
    if version not in MODERN_VERSIONS:
        raw = {key: value for key, value in raw.items() if key not in _LATER}
    return read_asked(raw) if raw.get("resultType", "complete") == "input_required" else to_result(raw)


def read_asked(raw: JsonObject) -> Asked:
    """A result that asks for something first. Raises ValidationError if it is none."""
    answer = InputRequiredResult.model_validate(raw, by_name=False)
    whole = dumped(answer) or {}
    return Asked(whole.get("inputRequests") or {}, answer.request_state, whole)
