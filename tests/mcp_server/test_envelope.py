"""The envelopes of requests of 2026-07-28 are judged as the SDK judges them, and in the same words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared import inbound

from servers.examples import examples
from spindle.mcp_protocol.errors import McpError
from spindle.mcp_protocol.names import CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION
from spindle.mcp_server.envelope import HTTP_STATUSES, read_envelope, repeated_header

VERSIONS = st.sampled_from(["2026-07-28", "2025-11-25", "2030-01-01", "", None, 5])
META = st.fixed_dictionaries(
    {}, optional={PROTOCOL_VERSION: VERSIONS, CLIENT_CAPABILITIES: st.just({}), CLIENT_INFO: st.just("x")}
)
PARAMS = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "_meta": META | st.sampled_from([None, 5, []]),
        "name": st.sampled_from(["a", "é", 5, None]),
        "uri": st.sampled_from(["x:y", None]),
    },
)
METHODS = st.sampled_from(["tools/call", "resources/read", "tools/list"])
HEADERS = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "mcp-protocol-version": st.sampled_from(["2026-07-28", "2030-01-01", ""]),
        "mcp-method": METHODS,
        "mcp-name": st.sampled_from(["a", "x:y", "=?base64?w6k=?=", "=?base64?x?=", ""]),
    },
)


@examples(300)
@given(METHODS, PARAMS, HEADERS)
def test_an_envelope_is_judged_as_the_sdk_judges_it(
    method: str, params: dict[str, Any] | None, headers: dict[str, str] | None
) -> None:
    theirs = inbound.classify_inbound_request({"method": method, "params": params}, headers=headers)
    if isinstance(theirs, inbound.InboundLadderRejection):
        with pytest.raises(McpError) as refused:
            read_envelope(method, params, headers)
        assert refused.value.args == (theirs.code, theirs.message, theirs.data)
    else:
        mine = read_envelope(method, params, headers)
        found = theirs.protocol_version, theirs.client_info, theirs.client_capabilities
        assert (mine.version, mine.info, mine.capabilities) == found


def test_errors_have_the_statuses_that_the_sdk_gives_them() -> None:
    assert dict(inbound.ERROR_CODE_HTTP_STATUS) == HTTP_STATUSES


@given(st.lists(st.sampled_from(["Mcp-Method", "mcp-method", "mcp-name", "x", "MCP-Protocol-Version"])))
def test_a_header_that_comes_twice_is_found_as_the_sdk_finds_it(names: list[str]) -> None:
    raw = [(name.encode(), b"x") for name in names]
    assert repeated_header(raw) == inbound.find_duplicated_routing_header([(name, "x") for name in names])
