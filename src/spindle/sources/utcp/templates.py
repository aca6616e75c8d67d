"""Manuals, call templates and auth as UTCP 1.x writes them. What we do not know is ignored, as UTCP does."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from spindle.domain.json_schema import JsonObject


class Part(BaseModel):
    """A part of a manual. Fields that are not known are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


# --- auth


class ApiKey(Part):
    """Auth by a key in a header, a query or a cookie."""

    auth_type: Literal["api_key"] = "api_key"
    api_key: str
    var_name: str = "X-Api-Key"
    location: Literal["header", "query", "cookie"] = "header"


class Basic(Part):
    """Auth by a user and a password."""

    auth_type: Literal["basic"] = "basic"
    username: str
    password: str


class OAuth2(Part):
    """Auth by a token that client credentials are exchanged for."""

    auth_type: Literal["oauth2"] = "oauth2"
    token_url: str
    client_id: str
    client_secret: str
    scope: str | None = None


Auth = Annotated[ApiKey | Basic | OAuth2, Field(discriminator="auth_type")]


# --- call templates


def _or_empty(value: Any) -> Any:
    """An empty object for null, which UTCP's own models write for what was left out."""
    return {} if value is None else value


def _or_none(value: Any) -> Any:
    return () if value is None else value


Texts = Annotated[dict[str, str], BeforeValidator(_or_empty)]
Names = Annotated[tuple[str, ...], BeforeValidator(_or_none)]


class Template(Part):
    """The fields of every call template."""

    name: str = ""
    auth: Auth | None = None


class HttpLike(Template):
    """The fields of the three kinds that speak HTTP."""

    url: str
    headers: Texts = Field(default_factory=dict[str, str])
    header_fields: Names = ()
    body_field: str | None = None

    @field_validator("url")
    @classmethod
    def _is_http(cls, value: str) -> str:
        if not value.startswith(("http://", "https://", "$")):
            raise ValueError("must begin with http:// or https://")
        return value

    @property
    def method(self) -> str:
        return "GET"


class HttpTemplate(HttpLike):
    """A call by one HTTP request."""

    call_template_type: Literal["http"]
    http_method: Literal["GET", "POST", "PUT", "DELETE", "PATCH"] = "GET"
    content_type: str = "application/json"
    body_field: str | None = "body"
    auth_tools: Auth | None = None

    @property
    def method(self) -> str:
        return self.http_method


class SseTemplate(HttpLike):
    """A call answered by an event stream."""

    call_template_type: Literal["sse"]
    event_type: str | None = None
    reconnect: bool = True
    retry_timeout: int | None = Field(default=None, ge=0)
    """Milliseconds; what is not given here is for the server to say."""


class StreamableHttpTemplate(HttpLike):
    """A call answered by a stream of chunks."""

    call_template_type: Literal["streamable_http"]
    http_method: Literal["GET", "POST"] = "GET"
    content_type: str = "application/octet-stream"
    timeout: int | None = Field(default=None, ge=0)
    """Milliseconds."""

    @property
    def method(self) -> str:
        return self.http_method


class Step(Part):
    """One command of a program's call."""

    command: str
    append_to_final_output: bool | None = None


class CliTemplate(Template):
    """A call by commands, one after the other."""

    call_template_type: Literal["cli"]
    commands: tuple[Step, ...] = Field(min_length=1)
    env_vars: Texts = Field(default_factory=dict[str, str])
    inherit_env_vars: tuple[str, ...] | None = None
    working_dir: str | None = None


class WebSocketTemplate(Template):
    """A call by a message over a WebSocket."""

    call_template_type: Literal["websocket"]
    url: str
    message: str | dict[str, Any] | list[Any] | None = None
    protocol: str | None = None
    keep_alive: bool = True
    response_format: Literal["json", "text", "raw"] | None = None
    timeout: float | None = Field(default=None, gt=0)
    """Seconds."""
    headers: Texts = Field(default_factory=dict[str, str])
    header_fields: Names = ()

    @field_validator("url")
    @classmethod
    def _is_websocket(cls, value: str) -> str:
        if not value.startswith(("ws://", "wss://", "$")):
            raise ValueError("must begin with ws:// or wss://")
        return value


class TextTemplate(Template):
    """A text, or the file that it is in, as older manuals have it."""

    call_template_type: Literal["text", "file"]
    content: str | None = None
    file_path: str | None = None
    base_url: str | None = None
    auth_tools: Auth | None = None

    @model_validator(mode="after")
    def _has_one(self) -> Self:
        if (self.content is None) == (self.file_path is None):
            raise ValueError("give either `content` or `file_path`")
        return self


AnyTemplate = Annotated[
    HttpTemplate | SseTemplate | StreamableHttpTemplate | CliTemplate | WebSocketTemplate | TextTemplate,
    Field(discriminator="call_template_type"),
]
TEMPLATE: TypeAdapter[AnyTemplate] = TypeAdapter(AnyTemplate)


# --- manuals


class ManualTool(Part):
    """A tool of a manual."""

    name: str = Field(min_length=1)
    description: Annotated[str, BeforeValidator(lambda value: value or "")] = ""
    inputs: Any = None
    outputs: Any = None
    tags: Names = ()
    average_response_size: int | None = None
    tool_call_template: JsonObject
    x_spindle_trail: Any = None


def problem_in(error: ValidationError) -> str:
    """Returns the first mistake, with its path."""
    first = error.errors()[0]
    # The union's own marks, such as `api_key`, are not part of the document.
    path = ".".join(str(step) for step in first["loc"] if step not in _MARKS)
    said = first["msg"].removeprefix("Value error, ")
    return f"{path}: {said}" if path else said


_MARKS = frozenset(
    {"http", "sse", "streamable_http", "cli", "websocket", "text", "file", "basic", "oauth2", "str"}
)
