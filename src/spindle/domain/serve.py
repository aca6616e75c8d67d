"""The settings for serving the catalog to others: the `[serve]` table."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BeforeValidator, ByteSize, Field, field_validator, model_validator

from spindle.domain.quota import QuotaRule
from spindle.domain.source import RateLimit, Section

DEFAULT_PORT = 8321
SIGNATURES = ("ES256", "ES384", "ES512", "EdDSA", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512")
"""Those whose keys an issuer can publish. One made with a shared secret proves nothing here."""

_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
# What stands between quotes in a header of ours.
_PLAIN = re.compile(r'[^\x00-\x20"\\\x7f-\uffff]+')


def _as_list(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_as_list)]
"""A list, or the one that would stand in it."""


class Exposure(Section):
    """The tools that exist for those who are served: those that `exposed_tools` names, without those that
    `excluded_tools` names. Names are exact or patterns: `*`, `?`, `[abc]`."""

    exposed_tools: Names | None = Field(default=None, description="left out: all")
    excluded_tools: Names = ()


class TokenConfig(Section):
    """A token that a client may show, and the user it stands for."""

    token: str | None = None
    token_env: str | None = Field(default=None, description="the variable that holds the token")
    user: str | None = Field(default=None, min_length=1, description="left out: the name of the table")
    groups: Names = ()
    admin: bool = Field(default=False, description="may use the admin API, and read the metrics")

    @model_validator(mode="after")
    def _one_token(self) -> Self:
        if (self.token is None) == (self.token_env is None):
            raise ValueError("give either `token` or `token_env`")
        if self.token is not None and not self.token.strip():
            raise ValueError("`token` is empty")
        return self


class JwtConfig(Section):
    """Tokens that an authorisation server issues for this one, signed with a key that it publishes."""

    issuer: str = Field(min_length=1, description="the exact issuer of tokens, their `iss`")
    audience: Names = Field(min_length=1, description="of which one must be in a token's `aud`")
    jwks_url: str = Field(description="where the issuer publishes its keys")
    required_scopes: Names = ()
    user_claim: str = Field(default="sub", min_length=1)
    groups_claim: str = Field(default="groups", min_length=1)
    admin_groups: Names = Field(default=(), description="groups whose members may use the admin API")
    algorithms: Names = Field(default=SIGNATURES, min_length=1)
    leeway: float = Field(default=30.0, ge=0, le=600, description="seconds by which clocks may differ")

    @field_validator("audience")
    @classmethod
    def _not_blank(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        if not all(value.strip() for value in values):
            raise ValueError("must not be empty")
        return values

    @field_validator("jwks_url")
    @classmethod
    def _is_safe(cls, value: str) -> str:
        parts = urlsplit(value)
        if not parts.hostname or parts.scheme not in ("http", "https"):
            raise ValueError("must be an address such as https://login.example.com/jwks.json")
        if parts.scheme == "http" and parts.hostname not in _LOCAL_HOSTS:
            raise ValueError("must begin with https://: whoever changes the keys on the way can be anybody")
        return value

    @field_validator("required_scopes")
    @classmethod
    def _are_scopes(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        for value in values:
            if not _PLAIN.fullmatch(value):
                raise ValueError(f"{value!r} is not a scope: no spaces, quotes or letters beyond ASCII")
        return values

    @field_validator("algorithms")
    @classmethod
    def _are_signatures(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        for value in values:
            if value not in SIGNATURES:
                raise ValueError(f"{value!r} is none of {', '.join(SIGNATURES)}")
        return values


class Quotas(Section):
    """The number of things that one client may hold open. Without tokens, all that come are one client."""

    sessions: int = Field(
        default=200,
        ge=1,
        description="MCP sessions in memory; for another, its idle one that was used longest ago is put away",
    )
    streams: int = Field(
        default=100, ge=1, description="streams of notices; for another, its oldest one ends"
    )
    suspended: int = Field(
        default=100,
        ge=1,
        description="calls that wait for its answer or for a person; for another, its oldest one ends",
    )
    watches: int = Field(default=100, ge=1, description="resources that it watches")
    tasks: int = Field(default=100, ge=1, description="tasks that are at work or wait for an answer")
    requests: int = Field(default=500, ge=1, description="requests at once, running or waiting")
    rules: dict[str, QuotaRule] = Field(
        default_factory=dict[str, QuotaRule], description="what users, groups and tools may use"
    )


class ServedCode(Section):
    """The limits of one program that a client sends."""

    seconds: float = Field(default=30.0, gt=0, description="seconds that a program computes")
    memory: int = Field(default=100, gt=0, description="megabytes")
    calls: int = Field(default=100, gt=0, description="calls of tools")


class ServeConfig(Exposure):
    """The `[serve]` table: address, access, limits, and the form in which tools are offered."""

    host: str = Field(default="127.0.0.1", min_length=1, description="the address to listen on")
    port: int = Field(default=DEFAULT_PORT, ge=0, le=65535, description="0 takes any free port")
    url: str | None = Field(
        default=None, description="the address by which clients reach the server, where it is another"
    )
    auth_token: str | None = Field(default=None, description="what clients must show as a bearer token")
    auth_token_env: str | None = Field(
        default=None, description="the variable of the environment that holds the token"
    )
    tokens: dict[str, TokenConfig] = Field(
        default_factory=dict[str, TokenConfig], description="further tokens, each with a user and groups"
    )
    jwt: JwtConfig | None = None
    default_agent_group: str = Field(
        default="guest", min_length=1, description="the group of clients that are in no configured group"
    )
    groups: dict[str, Exposure] = Field(
        default_factory=dict[str, Exposure], description="the tools that each group sees, of those exposed"
    )
    allowed_hosts: tuple[str, ...] = Field(
        default=(), description="further names under which clients may address the server"
    )
    allowed_origins: tuple[str, ...] = Field(
        default=(), description="origins of web pages that may call, besides the server's own"
    )
    rate_limit: RateLimit | None = Field(
        default=None, description='requests of one client, such as "100/minute"'
    )
    quotas: Quotas = Quotas()
    costs: dict[str, float] = Field(
        default_factory=dict[str, float], description="units that a call costs, by tool or pattern; else 1"
    )
    max_body_size: ByteSize = Field(default=ByteSize(4 * 1024 * 1024), gt=0)
    max_header_size: ByteSize = Field(
        default=ByteSize(32 * 1024), ge=1024, description="bytes of a request's line and headers"
    )
    max_headers: int = Field(default=100, ge=10, description="headers of one request")
    header_timeout: float = Field(
        default=10.0, gt=0, description="seconds in which a client must send the header of its request"
    )
    body_timeout: float = Field(
        default=30.0, gt=0, description="seconds in which a client must send the whole body of its request"
    )
    send_timeout: float = Field(
        default=30.0, gt=0, description="seconds in which a client must read some of what it is sent"
    )
    keep_alive: float = Field(
        default=60.0, gt=0, description="seconds that a client's connection is kept between two requests"
    )
    max_connections: int = Field(
        default=1000, ge=1, description="connections in all, of those that the system lets us have"
    )
    max_connections_per_address: int = Field(
        default=100, ge=1, description="connections of one address, or of one IPv6 network of 64 bits"
    )
    trusted_proxies: Names = Field(
        default=("127.0.0.0/8", "::1"),
        description="addresses and networks that stand for many clients, and are not counted",
    )
    unix: str | None = Field(default=None, description="the path of a Unix socket to listen on instead")
    unix_mode: str = Field(
        default="600", pattern=r"^[0-7]{3}$", description="the permissions of that file: who may connect"
    )
    tls_certificate: str | None = Field(
        default=None, description="a PEM file with the server's certificate and those that signed it"
    )
    tls_key: str | None = Field(default=None, description="its key, if it is not in the same file")
    tls_client_ca: str | None = Field(
        default=None, description="who signs the certificates of clients, which must then show one"
    )
    drain_delay: float = Field(
        default=0.0, ge=0, description="seconds from the signal to stop, in which /readyz says no, to the end"
    )
    shutdown_timeout: float = Field(
        default=10.0, ge=0, description="seconds that running calls may take to end when the server stops"
    )

    audit: Literal["all", "refusals", "off"] = Field(
        default="all", description="what the audit log has besides the changes that administrators make"
    )
    metrics: bool = Field(default=False, description="count, and show at /metrics to administrators")
    metrics_address: str | None = Field(
        default=None, description="an address at which everybody who reaches it may read the metrics"
    )
    access_log: bool = Field(default=False, description="log each request")
    sse: bool = Field(
        default=False, description="serve old MCP clients too, over HTTP with server-sent events at /sse"
    )
    registry: bool | Literal["open"] = Field(
        default=False,
        description='publish the sources at /v0.1/servers; "open": to everybody who reaches the server',
    )
    console: bool = Field(default=False, description="show the workspace to people in a browser, at /console")
    instruction: str | None = Field(
        default=None,
        description="what the tools are for, as MCP clients read it: the text, or a file that holds it",
    )
    names: Literal["safe", "full"] = Field(
        default="safe", description="tools' names as every model API takes them, or as in the catalog"
    )
    mode: Literal["all", "search", "auto", "code"] = Field(
        default="all",
        description="offer all tools, or three by which to search, describe and call them;"
        ' "code": to call them by programs',
    )
    code: ServedCode = ServedCode()
    max_tools: int = Field(default=100, ge=1, description='tools above which "auto" means "search"')
    page_size: int = Field(default=1000, ge=1, description="tools in one page of a list")
    task_after: float = Field(
        default=5.0,
        ge=0,
        description="seconds after which a call becomes a task, for a client that knows tasks",
    )
    ask_timeout: float = Field(
        default=300.0, gt=0, description="seconds that a client may take to answer what a call asks"
    )

    @property
    def wants_token(self) -> bool:
        """True if clients must show a token."""
        return bool(self.auth_token or self.auth_token_env or self.tokens or self.jwt)

    @field_validator("trusted_proxies")
    @classmethod
    def _are_networks(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        for value in values:
            try:
                ipaddress.ip_network(value)
            except ValueError as error:
                raise ValueError(
                    f"{error}; give addresses such as 10.0.0.5, or networks such as 10.0.0.0/24"
                ) from None
        return values

    @field_validator("url")
    @classmethod
    def _is_http(cls, value: str | None) -> str | None:
        return None if value is None else checked_url(value)

    @model_validator(mode="after")
    def _one_token(self) -> Self:
        if self.auth_token is not None and self.auth_token_env is not None:
            raise ValueError("give either `auth_token` or `auth_token_env`")
        if self.auth_token is not None and not self.auth_token.strip():
            raise ValueError("`auth_token` is empty; leave it out to want none")
        return self


def checked_url(value: str) -> str:
    """Returns the address without a slash at its end. Raises ValueError for what cannot be one."""
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError("must be an address such as https://tools.example.com")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not hold a name or a password")
    return value.rstrip("/")
