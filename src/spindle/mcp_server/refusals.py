"""Our errors as the protocol's, for requests whose results cannot say that something went wrong."""

from __future__ import annotations

from mcp.shared.exceptions import MCPError, UrlElicitationRequiredError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, ElicitRequestURLParams

from spindle.domain.call import new_id
from spindle.domain.json_schema import JsonObject, is_object
from spindle.errors import AuthorizationRequired, Interruption, NotFoundError, SpindleError
from spindle.mcp_server.client_peer import is_capable
from spindle.mcp_server.inbound import RequestContext, is_modern

RESOURCE_NOT_FOUND = -32002
"""Until 2026-07-28, which has invalid parameters for it."""


def refusal(ctx: RequestContext, error: SpindleError | Interruption) -> MCPError:
    if isinstance(error, Interruption):
        return _interrupted(ctx, error)
    about: JsonObject = error.details if is_object(error.details) else {}
    is_read = ctx.method.startswith("resources/")
    missing = RESOURCE_NOT_FOUND if is_read and not is_modern(ctx) else INVALID_PARAMS
    if isinstance(error, NotFoundError):
        data = {"uri": about["uri"]} if "uri" in about else None
        return MCPError(code=missing, message=_text(error), data=data)
    code = about.get("code")
    if not isinstance(code, int):
        return MCPError(code=INTERNAL_ERROR, message=_text(error), data={"category": error.category})
    if code == RESOURCE_NOT_FOUND:
        code = missing
    return MCPError(code=code, message=_text(error), data=about.get("data"))


def _text(error: SpindleError) -> str:
    return error.message if error.hint is None else f"{error.message}; hint: {error.hint}"


def _interrupted(ctx: RequestContext, asked: Interruption) -> MCPError:
    if not isinstance(asked, AuthorizationRequired):
        return MCPError(code=INTERNAL_ERROR, message=f"{asked.message}, which a person has to answer first")
    params = ElicitRequestURLParams(message=asked.message, url=asked.url, elicitation_id=new_id())
    if is_capable(ctx.session.client_capabilities, "elicitation/create", {"mode": "url"}):
        return UrlElicitationRequiredError([params], asked.message)
    return MCPError(
        code=INTERNAL_ERROR, message=f"{asked.message}; open this link to give consent: {asked.url}"
    )
