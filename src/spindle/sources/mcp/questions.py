"""Servers of the modern protocol era that ask for input: from their questions to a pause, and from the
answer to the repeated call. Nothing is kept open meanwhile: all that the server needs is in its state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_types import (
    ClientCapabilities,
    ElicitationCapability,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    FormElicitationCapability,
    InputRequiredResult,
    InputResponses,
    UrlElicitationCapability,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from spindle.errors import ClientError, InputRequired

if TYPE_CHECKING:
    from spindle.domain.call import Reply
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.tool import Tool


def welcome_questions(version: str, capabilities: ClientCapabilities) -> None:
    """Tells a server that questions are welcome, but only if one can be answered after a restart: a server
    of the handshake era would hold its request open for as long as the person takes."""
    if version in MODERN_PROTOCOL_VERSIONS:
        capabilities.elicitation = ElicitationCapability(
            form=FormElicitationCapability(), url=UrlElicitationCapability()
        )


def to_question(tool: Tool, asked: InputRequiredResult) -> InputRequired:
    """All that the server wants to know, as one question: a form's own schema, or a property for each."""
    modes: dict[str, str] = {}
    forms: dict[str, JsonObject] = {}
    messages: list[str] = []
    links: list[str] = []
    for key, request in (asked.input_requests or {}).items():
        if not isinstance(request, ElicitRequest):
            raise ClientError(
                f"{tool.name} asks for {request.method!r} while it runs, which Spindle does not offer",
                hint="tell the author of the server",
            )
        messages.append(request.params.message)
        modes[key] = request.params.mode
        if isinstance(request.params, ElicitRequestFormParams):
            forms[key] = request.params.requested_schema
        else:
            links.append(request.params.url)
    details: JsonObject = {"schema": _schema(forms, alone=len(modes) == 1)}
    if links:
        details["url"] = links[0]
        details["urls"] = links
    return InputRequired(
        "\n".join(messages) or f"{tool.name} asks for input",
        source=tool.source,
        tool=tool.name,
        details=details,
        state={"modes": modes, "request_state": asked.request_state},
    )


def _schema(forms: dict[str, JsonObject], *, alone: bool) -> JsonObject:
    if not forms:
        return {}  # a link alone: that somebody says so is enough
    if alone:
        return next(iter(forms.values()))
    return {"type": "object", "properties": forms, "required": list(forms)}


def to_responses(reply: Reply) -> tuple[InputResponses | None, str | None]:
    """The responses that go with the repeated call."""
    modes: dict[str, str] = reply.state["modes"]
    responses: InputResponses = {}
    for key, mode in modes.items():
        if reply.refused is not None:
            responses[key] = ElicitResult(action="decline")
        elif mode == "form":
            content: Any = reply.answer if len(modes) == 1 else reply.answer[key]
            responses[key] = ElicitResult(action="accept", content=content)
        else:
            responses[key] = ElicitResult(action="accept")
    return responses or None, reply.state["request_state"]
