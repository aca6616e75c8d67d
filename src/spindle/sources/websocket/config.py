"""Settings of a WebSocket service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from spindle.domain.json_schema import JsonObject, from_json, is_object
from spindle.domain.source import SourceConfig
from spindle.sources.parameters import Described, ParameterConfig, check_places, texts, whole_place

SUBSCRIPTION = "subscription"
Condition = str | dict[str, Any]
"""A path that must lead to something that is not empty or false, or paths and the values they must have."""


class Stream(BaseModel):
    """A request that is answered by many messages: which ones, and when it is enough."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    count: int | None = Field(default=None, ge=1)
    seconds: float | None = Field(default=None, gt=0)
    until: Condition | None = None
    match: dict[str, Any] | None = None
    """Paths and values of the messages that belong to it, where they do not carry the request's id."""
    id_from: str | None = None
    """The path in the first reply at which the service gives the subscription an id of its own."""
    id_field: str | None = None
    """The path at which the messages that follow carry it."""
    stop: Any = None
    """The message that ends the subscription. Its place `{subscription}` is that id."""

    @model_validator(mode="after")
    def _ends(self) -> Stream:
        if self.count is None and self.seconds is None and self.until is None:
            raise ValueError("say when it is enough: `count`, `seconds` or `until`")
        if (self.id_from is None) != (self.id_field is None):
            raise ValueError(
                "`id_from` and `id_field` go together: where the id is given, and where it is carried"
            )
        if self.id_from is not None and self.match is not None:
            raise ValueError("messages are recognised either by `match` or by `id_from` and `id_field`")
        return self


class Request(Described):
    """One tool: the message that is sent, and where in the reply the result is."""

    message: Any
    parameters: dict[str, ParameterConfig] = Field(default_factory=dict[str, ParameterConfig])
    reply: str | None = None
    error: Condition | None = None
    stream: Stream | None = None

    @model_validator(mode="after")
    def _places_are_parameters(self) -> Request:
        stream = self.stream
        templates = [self.message] + ([stream.match, stream.until] if stream else [])
        _check_places(templates, self.parameters)
        if stream is not None:
            known: dict[str, Any] = dict(self.parameters)
            if stream.id_from is not None:
                if SUBSCRIPTION in known:
                    raise ValueError(
                        f"the parameter {SUBSCRIPTION!r} must have another name: it is the stream's id"
                    )
                known[SUBSCRIPTION] = None
            _check_places([stream.stop], known)
        return self


def _check_places(templates: list[Any], known: Mapping[str, Any]) -> None:
    for template in templates:
        for text in texts(template):
            check_places(text, known)


class WebSocketConfig(SourceConfig):
    """Settings of a source of kind `websocket`."""

    kind: Literal["websocket"] = "websocket"  # pyright: ignore[reportIncompatibleVariableOverride] - frozen
    url: str
    headers: dict[str, str] = Field(default_factory=dict[str, str])
    subprotocols: tuple[str, ...] = ()
    format: Literal["json", "text", "base64"] = "json"
    """The format of messages; with `base64` they are bytes, written as base64 in arguments and results."""
    frames: Literal["text", "binary"] = "text"
    """In which frames JSON and text are sent. Both are understood."""
    id_field: str | None = None
    """The path at which a request carries its number. Without one, calls take turns."""
    reply_id_field: str | None = None
    """The path at which the reply repeats it, where that is another."""
    id_type: Literal["integer", "string"] = "integer"
    keep_alive: float = Field(default=20.0, ge=0, description="seconds between pings; 0 sends none")
    requests: dict[str, Request] = Field(min_length=1)

    @field_validator("url")
    @classmethod
    def _is_websocket(cls, value: str) -> str:
        if not value.startswith(("ws://", "wss://", "${")):
            raise ValueError("must begin with ws:// or wss://")
        return value

    @field_validator("requests", mode="before")
    @classmethod
    def _json_text_is_read(cls, requests: Any, info: Any) -> Any:
        if info.data.get("format", "json") != "json" or not isinstance(requests, dict):
            return requests
        return {name: _with_read_message(name, item) for name, item in cast(JsonObject, requests).items()}

    @model_validator(mode="after")
    def _fits_together(self) -> WebSocketConfig:
        if self.format != "json":
            if self.id_field is not None:
                raise ValueError(f"`id_field` needs messages with fields, and format is {self.format!r}")
            for name, request in self.requests.items():
                if request.stream is not None and request.stream.id_from is not None:
                    raise ValueError(
                        f"requests.{name}.stream.id_from needs messages with fields, not {self.format!r}"
                    )
                if not isinstance(request.message, str):
                    raise ValueError(f"requests.{name}.message: must be text, as format is {self.format!r}")
        elif self.id_field is not None:
            for name, request in self.requests.items():
                if not isinstance(request.message, dict):
                    raise ValueError(f"requests.{name}.message: must be a table, to hold `id_field`")
        return self


def _with_read_message(name: str, request: Any) -> Any:
    message = request.get("message") if is_object(request) else None
    # A place alone, such as "{message}", is filled with whatever the argument is.
    if not is_object(request) or not isinstance(message, str) or whole_place(message) is not None:
        return cast(Any, request)
    try:
        return {**request, "message": from_json(message.encode())}
    except ValueError as error:
        raise ValueError(
            f"{name}.message is not JSON: {error}; write it as a table, or set format = 'text'"
        ) from None
