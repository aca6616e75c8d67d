"""A request of an administrator, as the handlers of the admin API get it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spindle.domain.json_schema import JsonObject, from_json, is_object
from spindle.errors import InvalidArgumentsError
from spindle.serving.problems import body_of

if TYPE_CHECKING:
    from starlette.datastructures import QueryParams
    from starlette.requests import Request

    from spindle.serving.administration import Administrator

MAX_BODY: Final = 64 * 1024


class AdminRequest:
    """A request of an administrator."""

    def __init__(self, request: Request, by: Administrator, name: str) -> None:
        self.request = request
        self.by = by
        self.name = name
        self.query: QueryParams = request.query_params

    @property
    def has_body(self) -> bool:
        """True if something was sent."""
        headers = self.request.headers
        return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers

    async def body(self, most: int = MAX_BODY) -> JsonObject:
        """The object that was sent, of so many bytes."""
        data = await body_of(self.request, most)
        kind = self.request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise InvalidArgumentsError("the body must be JSON", hint="send Content-Type: application/json")
        try:
            found = from_json(data)
        except ValueError as error:
            raise InvalidArgumentsError(f"the body is not JSON: {error}") from None
        if not is_object(found):
            raise InvalidArgumentsError("the body must be a JSON object")
        return found
