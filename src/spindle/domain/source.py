"""The settings of sources. Each kind extends `SourceConfig` with its own."""

from __future__ import annotations

import re
import shlex
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ByteSize,
    Field,
    field_validator,
    model_validator,
)

from spindle.domain.call import KeyPlace
from spindle.domain.doubt import InDoubt, KeyConfig, table_of
from spindle.domain.error_rules import ErrorRules
from spindle.domain.identity import GROUP, Principal, names_approver
from spindle.domain.section import Section as Section
from spindle.domain.section import check_patterns
from spindle.domain.text_values import Parse
from spindle.domain.tool import Hints, ToolSpec

SOURCE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")

DESTRUCTIVE = "destructive"
"""Among the patterns of `approve`: every tool that is not known to destroy nothing."""

OWN_CODE = frozenset({"agents", "python", "mods", "flows", "events"})
"""Kinds whose tools the workspace describes itself: one that says nothing of destroying does not destroy."""
_DESCRIBES_ITSELF = frozenset({"mcp"})
"""Kinds whose hints are words of a server about itself. Elsewhere they follow from the protocol, such as the
method of a request, or the workspace gave them."""


FormatCheck = bool | Literal["note"]
"""True: a text without the format that its schema names is an error; "note": it is noted."""


def may_destroy(hints: Hints, kind: str, *, trusted: bool) -> bool:
    """True if a tool with these hints, of this kind of source, may destroy something. Hints that are not
    trusted can only make it worse."""
    if trusted and hints.read_only:
        return False
    if hints.destructive or (trusted and hints.destructive is False):
        return hints.destructive
    return kind not in OWN_CODE


USUAL_STATUSES = frozenset({408, 429, 500, 502, 503, 504})
"""The HTTP statuses that are worth another try, unless the settings say otherwise."""


class RetryConfig(Section):
    """The number of tries of a call, and the waits between them."""

    attempts: int = Field(default=3, ge=1, le=20, description="tries in all, the first included")
    wait: float = Field(default=0.2, ge=0, description="seconds before the second try; doubles after that")
    max_wait: float = Field(default=10.0, ge=0, description="the longest wait, Retry-After included")
    statuses: tuple[int | str, ...] | None = Field(
        default=None,
        description="HTTP statuses that are worth another try, if not the usual ones;"
        ' "+409" and "-500" change those',
    )

    @field_validator("statuses")
    @classmethod
    def _are_statuses(cls, given: tuple[int | str, ...] | None) -> tuple[int | str, ...] | None:
        for item in given or ():
            if not re.fullmatch(r"[+-]?[1-5]\d\d", str(item)):
                raise ValueError(f'{item!r} is no status: write it as 409, or as "+409" or "-409"')
        return given

    def repeats(self, status: int, retryable: bool) -> bool:
        """True if an error with this status is worth another try. `retryable`: it says so itself."""
        usual = retryable and status in USUAL_STATUSES
        if self.statuses is None:
            return usual
        given = {str(item) for item in self.statuses}
        if f"-{status}" in given:
            return False
        if f"+{status}" in given or str(status) in given:
            return True
        # Plain numbers are the whole list, and so is an empty one.
        return usual and bool(given) and all(item[0] in "+-" for item in given)


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
        return check_patterns(patterns)


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
    name: str = Field(
        default="",
        description="of the header, query parameter or cookie; left out: as the source's document says, else"
        " the header `X-API-Key`",
    )
    value: str
    location: Literal["header", "query", "cookie"] = Field(default="header", alias="in")

    @model_validator(mode="after")
    def _has_a_place(self) -> Self:
        if not self.name and self.location != "header":
            raise ValueError(f"name is missing: that of the {self.location} of the key")
        return self


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


class SourceConfig(Section):
    """The settings that every kind of source has."""

    auth_place_known: ClassVar[bool] = False
    """True if the source may say where an API key without a name goes."""

    key_places: ClassVar[frozenset[KeyPlace]] = frozenset({"parameter"})
    """The places in which this kind can send an idempotency key."""

    kind: str
    description: str = ""
    enabled: bool = True
    prefix: bool = Field(default=True, description="whether tools are named `source.tool`, or just `tool`")
    timeout: float = Field(
        default=30.0,
        gt=0,
        description="seconds for one attempt of a call, with the waits for a place and for a busy source",
    )
    connect_timeout: float = Field(default=30.0, gt=0, description="seconds to open a session")
    idle_timeout: float = Field(
        default=300.0, gt=0, description="seconds without a call before a session closes"
    )
    max_concurrency: int = Field(default=10, ge=1)
    max_waiting: int = Field(
        default=10_000, ge=1, description="calls that wait for a place or the rate; further ones are refused"
    )
    max_sessions: int = Field(default=32, ge=1, description="sessions open at once, one a credential")
    max_result_size: ByteSize = Field(default=ByteSize(16 * 1024 * 1024), gt=0)
    max_tools: int = Field(
        default=10_000,
        ge=1,
        description="tools that it may list; also resources, templates and prompts, each",
    )
    max_list_size: ByteSize = Field(
        default=ByteSize(32 * 1024 * 1024), gt=0, description="bytes of all that one list holds"
    )
    max_tool_size: ByteSize = Field(
        default=ByteSize(1024 * 1024), gt=0, description="bytes of one tool's definition; larger: left out"
    )
    rate_limit: RateLimit | None = None
    retry: RetryConfig = RetryConfig()
    breaker: BreakerConfig = BreakerConfig()
    cache: CacheConfig | None = None
    errors: ErrorRules = Field(
        default=ErrorRules(), description="the categories of its errors, by a pattern in their text or a code"
    )
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    approve: tuple[str, ...] = Field(
        default=(),
        description='tools whose calls need approval; "destructive": all that declare themselves so',
    )
    approvers: tuple[str, ...] = Field(
        default=(),
        description="who may approve what `approve` holds back, besides the owner at the shell: `caller`,"
        " users, `group:NAME`",
    )
    pinned: bool = False
    trust_hints: bool = Field(
        default=False,
        description="whether a server that is not pinned is believed when it says it does no harm",
    )
    untrusted: bool | tuple[str, ...] | None = Field(
        default=None,
        description="whether its results are words of others, such as mails; or tools of which they are",
    )
    harmless: tuple[str, ...] = Field(default=(), description="tools that send, write and spend nothing")
    screen: Literal["hold", "note", "off"] = Field(
        default="hold",
        description="what becomes of a new or changed tool whose texts give a model orders or hide something:"
        " it is held until accepted, or that is only noted",
    )
    in_doubt: dict[str, InDoubt] = Field(
        default_factory=dict[str, InDoubt],
        description='what becomes of a step that was begun before a fault and may have been done: "ask",'
        ' "repeat" or "fail"; or a table of patterns of tools',
    )
    idempotency_key: KeyConfig | None = Field(
        default=None, description="where the source looks for an idempotency key, which it honours"
    )
    env: dict[str, str] = Field(default_factory=dict[str, str])
    auth: AuthConfig | None = None
    check_results: bool | Literal["note"] = Field(
        default=True, description="whether a result that breaks the tool's own promise is an error, or noted"
    )
    parse: Parse = Field(default="auto", description="whether flows see a text that is JSON as its value")
    check_formats: FormatCheck = Field(
        default="note",
        description="whether a text that is no date-time, email, uuid, uri or IP address, as its schema says,"
        " is an error, or noted",
    )

    @field_validator("approvers")
    @classmethod
    def _are_named(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if not name.removeprefix(GROUP).strip():
                raise ValueError('must be users, "group:NAME", or "caller"')
        return names

    @field_validator("include", "exclude", "approve", "approvers", "untrusted", "harmless", mode="before")
    @classmethod
    def _one_pattern_is_a_list(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("include", "exclude", "approve", "untrusted", "harmless")
    @classmethod
    def _patterns_compile(cls, patterns: tuple[str, ...] | bool | None) -> tuple[str, ...] | bool | None:
        return check_patterns(patterns) if isinstance(patterns, tuple) else patterns

    @field_validator("in_doubt", mode="before")
    @classmethod
    def _one_word_is_for_all(cls, value: Any) -> Any:
        return table_of(value)

    @field_validator("in_doubt")
    @classmethod
    def _tools_compile(cls, table: dict[str, InDoubt]) -> dict[str, InDoubt]:
        check_patterns(tuple(table))
        return table

    @model_validator(mode="after")
    def _can_send_the_key(self) -> Self:
        place = self.idempotency_key.place[0] if self.idempotency_key is not None else None
        if place is not None and place not in self.key_places:
            known = " or ".join(f"`{name}`" for name in sorted(self.key_places))
            raise ValueError(f"idempotency_key: a source of this kind has no {place}; use {known}")
        return self

    def admits(self, tool: str) -> bool:
        """True if `include` and `exclude` let a tool of this name into the catalog."""
        if self.include and not any(re.fullmatch(pattern, tool) for pattern in self.include):
            return False
        return not any(re.fullmatch(pattern, tool) for pattern in self.exclude)

    @property
    def trusts_hints(self) -> bool:
        """True if a hint that a tool does no harm counts."""
        return self.pinned or self.trust_hints or self.kind not in _DESCRIBES_ITSELF

    def may_destroy(self, hints: Hints) -> bool:
        """True if a tool of this source with these hints may destroy something."""
        return may_destroy(hints, self.kind, trusted=self.trusts_hints)

    def lets_approve(self, principal: Principal, caller: Principal) -> bool:
        """True if a principal may approve a call of the caller's. Nobody approves their own call unless the
        caller may."""
        return names_approver(self.approvers, principal, caller)

    def wants_approval(self, tool: str, *, destructive: bool) -> bool:
        """True if a person must approve each call of the tool of this name."""
        if destructive and DESTRUCTIVE in self.approve:
            return True
        return any(re.fullmatch(pattern, tool) for pattern in self.approve)

    def is_repeatable(self, spec: ToolSpec) -> bool:
        """True if it is known that a call of this tool may be made twice without harm."""
        return self.trusts_hints and (spec.hints.safe_to_repeat or spec.pure)

    def when_in_doubt(self, tool: str) -> InDoubt:
        """Returns what becomes of a call of the tool of this name that may have been done."""
        for pattern, how in self.in_doubt.items():
            if re.fullmatch(pattern, tool):
                return how
        return "ask"

    def key_place(self, tool: str, spec: ToolSpec) -> tuple[KeyPlace, str] | None:
        """Returns where the source looks for the idempotency key of a call of this tool, if it honours
        one."""
        return self.idempotency_key.place_for(tool, spec) if self.idempotency_key is not None else None
