"""Penguiflow's configurations, presets and errors under another import."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest
from pydantic import ValidationError

from spindle import errors as ours
from spindle.compat.penguiflow import (
    POPULAR_MCP_SERVERS,
    AuthType,
    ErrorCategory,
    ExternalToolConfig,
    McpTransportMode,
    RetryPolicy,
    ToolAuthError,
    ToolClientError,
    ToolConnectionError,
    ToolNodeError,
    ToolRateLimitError,
    ToolServerError,
    ToolTimeoutError,
    TransportType,
    UtcpMode,
    adapt_exception,
    get_preset,
)
from spindle.compat.penguiflow.source_settings import source_table

USUAL: dict[str, Any] = {"name": "shop", "transport": TransportType.MCP, "connection": "shop-server"}


def test_the_defaults_are_those_of_penguiflow() -> None:
    config = ExternalToolConfig(**USUAL)
    assert (config.timeout_s, config.max_concurrency, config.tool_filter) == (30.0, 10, None)
    assert (config.auth_type, config.utcp_mode) == (AuthType.NONE, UtcpMode.AUTO)
    policy = RetryPolicy()
    assert (policy.max_attempts, policy.wait_exponential_min_s, policy.wait_exponential_max_s) == (
        3,
        0.1,
        5.0,
    )
    assert policy.retry_on_status == [429, 500, 502, 503, 504]
    # As it comes from JSON or YAML.
    assert ExternalToolConfig.model_validate({**USUAL, "transport": "mcp", "auth_type": "none"}) == config


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"auth_type": AuthType.BEARER}, "requires auth_config.token"),
        ({"auth_type": AuthType.API_KEY}, "requires auth_config.api_key"),
        (
            {"auth_type": AuthType.COOKIE, "auth_config": {"cookie_name": "a"}},
            "requires auth_config.cookie_value",
        ),
        ({"utcp_mode": UtcpMode.MANUAL_URL}, "utcp_mode is only for"),
        (
            {"transport": TransportType.UTCP, "mcp_transport_mode": McpTransportMode.SSE},
            "mcp_transport_mode is only for",
        ),
        ({"timeout_s": 0.5}, "greater than or equal to 1"),
        ({"timeout_s": 301}, "less than or equal to 300"),
        ({"max_concurrency": 101}, "less than or equal to 100"),
        ({"name": "my shop"}, "must begin with a letter"),
        ({"connection": "  "}, "give a command"),
        ({"tool_filter": ["("]}, "not a regular expression"),
        ({"artifact_extraction": {}}, "binary content over 256 KiB is kept in a file"),
        ({"arg_validation": {}}, "always checked against the tool's own schema"),
        ({"timeout": 5}, "timeout"),
    ],
    ids=lambda item: next(iter(item)) if isinstance(item, dict) else None,
)
def test_what_cannot_be_honoured_is_refused(wrong: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        ExternalToolConfig(**{**USUAL, **wrong})


def test_limits_retries_and_timeouts_become_those_of_the_source() -> None:
    policy = RetryPolicy(
        max_attempts=5, wait_exponential_min_s=0.5, wait_exponential_max_s=2, retry_on_status=[503]
    )
    table = source_table(
        ExternalToolConfig(**USUAL, timeout_s=90, max_concurrency=3, retry_policy=policy, env={"A": "b"})
    )
    assert (table["timeout"], table["connect_timeout"], table["max_concurrency"]) == (90, 90, 3)
    assert table["retry"] == {"attempts": 5, "wait": 0.5, "max_wait": 2, "statuses": [503]}
    assert (table["kind"], table["command"], table["env"]) == ("mcp", ["shop-server"], {"A": "b"})


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"connection": "https://a.example/mcp"}, {"kind": "mcp", "url": "https://a.example/mcp"}),
        (
            {"connection": "server.py --fast"},
            {"kind": "mcp", "command": [sys.executable, "server.py", "--fast"]},
        ),
        ({"connection": "server.js"}, {"kind": "mcp", "command": ["node", "server.js"]}),
        (
            {"transport": "utcp", "connection": "https://a.example/.well-known/utcp"},
            {"kind": "utcp", "document": "https://a.example/.well-known/utcp"},
        ),
        (
            {"transport": "http", "connection": "https://a.example/v1"},
            {"kind": "http", "url": "https://a.example/v1"},
        ),
        (
            {"transport": "http", "connection": "https://a.example/v1", "utcp_mode": "manual_url"},
            {"kind": "utcp", "document": "https://a.example/v1"},
        ),
        ({"transport": "utcp", "connection": "manual.json"}, {"kind": "utcp", "document": "manual.json"}),
    ],
    ids=lambda item: item.get("connection") if "connection" in item else "",
)
def test_a_connection_becomes_the_place_of_a_source(given: dict[str, Any], place: dict[str, Any]) -> None:
    table = source_table(ExternalToolConfig.model_validate({**USUAL, **given}))
    assert {key: table[key] for key in place} == place
    assert "cli" not in table.get("allowed_protocols", ())


def test_presets_are_those_of_spindle() -> None:
    files = get_preset("filesystem")
    assert files.transport is TransportType.MCP
    assert "server-filesystem@" in files.connection
    assert files.connection.endswith(" /data")
    assert get_preset("postgres").env["DSN"] == "${DATABASE_URL}"
    github = get_preset("github")
    assert (github.auth_type, github.auth_config) == (
        AuthType.BEARER,
        {"token": "${GITHUB_PERSONAL_ACCESS_TOKEN}"},
    )
    assert get_preset("linear").auth_type is AuthType.OAUTH2_USER
    assert {"filesystem", "github", "postgres", "slack"} <= set(POPULAR_MCP_SERVERS)
    assert all(config.name == name for name, config in POPULAR_MCP_SERVERS.items())
    with pytest.raises(ValueError, match=r"no preset 'nonsense'; there are: .*filesystem"):
        get_preset("nonsense")


@pytest.mark.parametrize(
    ("error", "kind", "category"),
    [
        (ToolNodeError("x"), None, ErrorCategory.UNKNOWN),
        (ToolNodeError("x", status_code=429), None, ErrorCategory.RETRYABLE_RATE_LIMIT),
        (ToolNodeError("x", status_code=500), None, ErrorCategory.RETRYABLE_SERVER),
        (ToolNodeError("x", status_code=505), None, ErrorCategory.UNKNOWN),
        (ToolNodeError("x", status_code=403), None, ErrorCategory.AUTH_REQUIRED),
        (ToolNodeError("x", status_code=404), None, ErrorCategory.NON_RETRYABLE_CLIENT),
        (ToolTimeoutError("x"), None, ErrorCategory.RETRYABLE_SERVER),
        (ToolAuthError("x"), None, ErrorCategory.AUTH_REQUIRED),
        (ToolNodeError("x", category=ErrorCategory.CANCELLED), None, ErrorCategory.CANCELLED),
        (TimeoutError("x"), ToolTimeoutError, ErrorCategory.RETRYABLE_SERVER),
        (ConnectionResetError("x"), ToolConnectionError, ErrorCategory.NETWORK),
        (OSError("x"), ToolConnectionError, ErrorCategory.NETWORK),
        (ValueError("x"), ToolNodeError, ErrorCategory.UNKNOWN),
        (ours.RateLimitedError("x", status=429), ToolRateLimitError, ErrorCategory.RETRYABLE_RATE_LIMIT),
        (ours.CallTimeoutError("x", status=408), ToolTimeoutError, ErrorCategory.RETRYABLE_SERVER),
        (ours.ServerError("x", retryable=True, status=507), ToolServerError, ErrorCategory.RETRYABLE_SERVER),
        (ours.ServerError("broke its protocol"), ToolServerError, ErrorCategory.UNKNOWN),
        (ours.PermissionDeniedError("x", status=403), ToolAuthError, ErrorCategory.AUTH_REQUIRED),
        (ours.BreakerOpenError("x", retry_after=3), ToolConnectionError, ErrorCategory.NETWORK),
        (ours.ToolError("x"), ToolClientError, ErrorCategory.NON_RETRYABLE_CLIENT),
        (ours.NotFoundError("x", status=404), ToolClientError, ErrorCategory.NON_RETRYABLE_CLIENT),
        (ours.ConfigurationError("x"), ToolNodeError, ErrorCategory.UNKNOWN),
    ],
    ids=repr,
)
def test_every_error_has_its_class_and_category(
    error: Exception, kind: type[ToolNodeError] | None, category: ErrorCategory
) -> None:
    adapted = adapt_exception(error, "mcp")
    assert type(adapted) is (kind or type(error))
    assert adapted.category is category
    if adapted is not error:
        assert adapted.__cause__ is error
    if isinstance(error, ours.SpindleError):
        assert adapted.is_retryable is error.retryable


class McpError(Exception):
    pass


class HttpError(Exception):
    def __init__(self, text: str, status: int | None = None) -> None:
        super().__init__(text)
        self.status = status


class RpcError(Exception):
    code = -32601


@pytest.mark.parametrize(
    ("error", "transport", "kind", "status"),
    [
        (McpError("refused"), "mcp", ToolClientError, None),
        (RuntimeError("lost connection to the server"), "mcp", ToolConnectionError, None),
        (RpcError("no such method"), "mcp", ToolNodeError, None),
        (HttpError("slow down", 429), "mcp", ToolRateLimitError, 429),
        (HttpError("slow down", 429), "utcp", ToolRateLimitError, 429),
        (RuntimeError("HTTP 503: try later"), "http", ToolServerError, 503),
        (RuntimeError("failed with status: 404"), TransportType.UTCP, ToolClientError, 404),
        (RuntimeError("request timeout"), "cli", ToolTimeoutError, None),
        (RuntimeError("connection refused"), "utcp", ToolConnectionError, None),
        (RuntimeError("something else"), "utcp", ToolNodeError, None),
    ],
    ids=repr,
)
def test_errors_of_other_libraries_are_told_by_status_name_and_words(
    error: Exception, transport: str, kind: type[ToolNodeError], status: int | None
) -> None:
    adapted = adapt_exception(error, transport)
    assert (type(adapted), adapted.status_code) == (kind, status)


def test_cancellation_and_pauses_are_never_wrapped() -> None:
    with pytest.raises(asyncio.CancelledError):
        adapt_exception(asyncio.CancelledError(), "mcp")
    with pytest.raises(ours.InputRequired):
        adapt_exception(ours.InputRequired("who?"), "mcp")


def test_waiting_is_advised_only_after_too_many_requests() -> None:
    assert ToolRateLimitError("x").retry_after_seconds == 1.0
    assert ToolServerError("x").retry_after_seconds is None
    assert adapt_exception(ours.RateLimitedError("x", retry_after=20), "mcp").retry_after_seconds == 20


def test_the_names_load_no_library_of_http_or_mcp() -> None:
    script = (
        "import sys, spindle.compat.penguiflow, spindle.compat.openagents;"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {
        "mcp",
        "httpx2",
        "uvicorn",
        "starlette",
        "websockets",
        "pydantic_ai",
    }
