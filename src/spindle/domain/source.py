"""The settings of sources. Each kind extends `SourceConfig` with its own."""

from __future__ import annotations

import re
import shlex
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

SOURCE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")

DESTRUCTIVE = "destructive"
"""Among the patterns of `approve`: every tool that says of itself that it may destroy."""


class Section(BaseModel):
    """A table of settings: unknown keys are refused, and it cannot be changed."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class RetryConfig(Section):
    """The number of tries of a call, and the waits between them."""

    attempts: int = Field(default=3, ge=1, le=20, description="tries in all, the first included")
    wait: float = Field(default=0.2, ge=0, description="seconds before the second try; doubles after that")
    max_wait: float = Field(default=10.0, ge=0, description="the longest wait, Retry-After included")
    statuses: tuple[int, ...] = (408, 425, 429, 500, 502, 503, 504)


class BreakerConfig(Section):
    """The point at which a failing source is left alone, and for how long."""

    failures: int = Field(default=5, ge=1, description="failures in a row that open the breaker")
    cooldown: float = Field(default=30.0, gt=0, description="seconds before one call may try again")


class CacheConfig(Section):
    """The time that results of pure tools stay good, and further tools to treat as pure."""

    ttl: float = Field(gt=0, description="seconds that a result stays good")
    tools: tuple[str, ...] = Field(
        default=(), description="patterns of further tools to treat as pure, besides those that say so"
    )

    @field_validator("tools")
    @classmethod
    def _patterns_compile(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        return _check_patterns(patterns)


_PERIODS = {"s": 1, "second": 1, "m": 60, "minute": 60, "h": 3600, "hour": 3600, "d": 86400, "day": 86400}


class RateLimit(Section):
    """A number of calls within a number of seconds; also written as text, such as "100/minute"."""

    calls: float = Field(gt=0)
    seconds: float = Field(default=1.0, gt=0)

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*/\s*([a-z]+)\s*", value)
        if not match or match[2] not in _PERIODS:
            raise ValueError(f"{value!r} is not a rate such as '10/s' or '100/minute'")
        return {"calls": float(match[1]), "seconds": _PERIODS[match[2]]}


class _TokenAuth(Section):
    env: str | None = Field(
        default=None, description="the variable in which a program that we start gets the token"
    )


class BearerAuth(_TokenAuth):
    """A fixed bearer token."""

    type: Literal["bearer"]
    token: str


class BasicAuth(Section):
    """A user name and a password."""

    type: Literal["basic"]
    username: str
    password: str


class ApiKeyAuth(Section):
    """A key in a header, a query parameter or a cookie."""

    type: Literal["api_key"]
    name: str = Field(default="", description="of the header, query parameter or cookie")
    value: str
    location: Literal["header", "query", "cookie"] = Field(default="header", alias="in")


class ClientCredentialsAuth(_TokenAuth):
    """OAuth 2.1: Spindle acts for itself, the same for everybody."""

    type: Literal["client_credentials"]
    token_url: str | None = Field(default=None, description="found by discovery where it is left out")
    client_id: str
    client_secret: str
    scopes: tuple[str, ...] = ()
    resource: str | None = None
    audience: str | None = None
    issuer: str | None = None


class OAuthAuth(_TokenAuth):
    """OAuth 2.1: each user gives consent. Settings that are left out are found by discovery, as MCP
    servers allow."""

    type: Literal["oauth"]
    provider: str | None = Field(default=None, description="its name as users should read it")
    client_id: str | None = Field(default=None, description="left out: a metadata document or registration")
    client_secret: str | None = None
    client_metadata_url: str | None = Field(default=None, description="the https address of our own metadata")
    scopes: tuple[str, ...] = ()
    resource: str | None = None
    issuer: str | None = None
    authorization_url: str | None = None
    token_url: str | None = None
    revocation_url: str | None = None
    device_url: str | None = None


AuthConfig = Annotated[
    BearerAuth | BasicAuth | ApiKeyAuth | ClientCredentialsAuth | OAuthAuth, Field(discriminator="type")
]


def _words_from_text(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return tuple(shlex.split(value))
    except ValueError as error:
        raise ValueError(f"cannot be split into words: {error}") from None


Words = Annotated[tuple[str, ...], BeforeValidator(_words_from_text)]
"""A program and its arguments: a list, or one string that is split as a shell would."""


def _begins_with_http(value: str) -> str:
    if not value.startswith(("http://", "https://", "${")):
        raise ValueError("must begin with http:// or https://")
    return value


WebAddress = Annotated[str, AfterValidator(_begins_with_http)]
"""An address of the web, or a variable that holds one."""


def _check_patterns(patterns: tuple[str, ...]) -> tuple[str, ...]:
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
    return patterns


class SourceConfig(Section):
    """The settings that every kind of source has."""

    auth_place_known: ClassVar[bool] = False
    """True if an API key may do without a name, because the source says where it goes."""

    kind: str
    description: str = ""
    enabled: bool = True
    prefix: bool = Field(default=True, description="whether tools are named `source.tool`, or just `tool`")
    timeout: float = Field(default=30.0, gt=0, description="seconds for one attempt of a call")
    connect_timeout: float = Field(default=30.0, gt=0, description="seconds to open a session")
    idle_timeout: float = Field(
        default=300.0, gt=0, description="seconds without a call before a session closes"
    )
    max_concurrency: int = Field(default=10, ge=1)
    max_sessions: int = Field(default=32, ge=1, description="sessions open at once, one a credential")
    max_result_size: ByteSize = Field(default=ByteSize(16 * 1024 * 1024), gt=0)
    rate_limit: RateLimit | None = None
    retry: RetryConfig = RetryConfig()
    breaker: BreakerConfig = BreakerConfig()
    cache: CacheConfig | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    approve: tuple[str, ...] = Field(
        default=(),
        description='tools whose calls need approval; "destructive": all that declare themselves so',
    )
    pinned: bool = False
    env: dict[str, str] = Field(default_factory=dict[str, str])
    auth: AuthConfig | None = None
    check_results: bool | Literal["note"] = Field(
        default=True, description="whether a result that breaks the tool's own promise is an error, or noted"
    )

    @field_validator("include", "exclude", "approve", mode="before")
    @classmethod
    def _one_pattern_is_a_list(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("include", "exclude", "approve")
    @classmethod
    def _patterns_compile(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        return _check_patterns(patterns)

    @model_validator(mode="after")
    def _key_has_a_place(self) -> Self:
        if isinstance(self.auth, ApiKeyAuth) and not self.auth.name and not self.auth_place_known:
            raise ValueError("auth.name is missing: the header, query parameter or cookie of the key")
        return self

    def admits(self, tool: str) -> bool:
        """True if `include` and `exclude` let a tool of this name into the catalog."""
        if self.include and not any(re.fullmatch(pattern, tool) for pattern in self.include):
            return False
        return not any(re.fullmatch(pattern, tool) for pattern in self.exclude)

    def wants_approval(self, tool: str, *, destructive: bool) -> bool:
        """True if a person must approve each call of the tool of this name."""
        if destructive and DESTRUCTIVE in self.approve:
            return True
        return any(re.fullmatch(pattern, tool) for pattern in self.approve)
