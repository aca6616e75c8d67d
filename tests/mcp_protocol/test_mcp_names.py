"""What is written down of the protocol is what the SDK has."""

from __future__ import annotations

from typing import Any, get_args

import mcp_types
import pytest
from mcp.shared import subscriptions
from mcp.shared.dispatcher import as_request_id as their_request_id
from mcp.shared.dispatcher import coerce_request_id
from mcp_types import version

from spindle.domain.levels import LOG_LEVELS
from spindle.mcp_protocol import names
from spindle.mcp_protocol.errors import as_request_id, same_id

CODES = [
    "PARSE_ERROR", "INVALID_REQUEST", "METHOD_NOT_FOUND", "INVALID_PARAMS", "INTERNAL_ERROR",
    "CONNECTION_CLOSED", "REQUEST_TIMEOUT", "HEADER_MISMATCH", "MISSING_REQUIRED_CLIENT_CAPABILITY",
    "UNSUPPORTED_PROTOCOL_VERSION", "URL_ELICITATION_REQUIRED",
]  # fmt: skip
KEYS = ["PROTOCOL_VERSION", "CLIENT_INFO", "CLIENT_CAPABILITIES", "LOG_LEVEL", "SERVER_INFO"]


def test_the_versions_are_those_of_the_sdk() -> None:
    assert version.HANDSHAKE_PROTOCOL_VERSIONS == names.HANDSHAKE_VERSIONS
    assert version.MODERN_PROTOCOL_VERSIONS == names.MODERN_VERSIONS
    assert version.LATEST_HANDSHAKE_VERSION == names.LATEST_HANDSHAKE
    assert version.LATEST_MODERN_VERSION == names.LATEST_MODERN


@pytest.mark.parametrize("name", CODES)
def test_a_code_is_that_of_the_sdk(name: str) -> None:
    assert getattr(names, name) == getattr(mcp_types, name)


@pytest.mark.parametrize("name", KEYS)
def test_a_key_is_that_of_the_sdk(name: str) -> None:
    assert getattr(names, name) == getattr(mcp_types, f"{name}_META_KEY")


def test_the_levels_and_notices_are_those_of_the_sdk() -> None:
    assert get_args(mcp_types.LoggingLevel) == LOG_LEVELS
    assert subscriptions.SUBSCRIPTION_ID_META_KEY == names.SUBSCRIPTION_ID
    told = {names.TOOLS_CHANGED, names.PROMPTS_CHANGED, names.RESOURCES_CHANGED, names.RESOURCE_UPDATED}
    assert told == subscriptions.LISTEN_STREAM_METHODS


@pytest.mark.parametrize("value", [1, "1", "a", "", -5, True, None, 1.5, [], {}])
def test_ids_are_told_apart_as_the_sdk_does(value: Any) -> None:
    found = as_request_id(value)
    assert found == their_request_id(value)
    if found is not None:
        assert same_id(found) == coerce_request_id(found)
