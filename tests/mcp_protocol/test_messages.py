"""What is found to be plainly right, the SDK's models find right too, and make the same of it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import InitializeRequestParams
from mcp_types.methods import (
    CLIENT_REQUESTS,
    SERVER_RESULTS,
    SPEC_CLIENT_METHODS,
    serialize_server_result,
    validate_client_request,
)

from servers.every_field import META, example
from servers.examples import examples
from spindle.mcp_protocol import messages
from spindle.mcp_protocol.messages import CLIENT, METHODS, fits, fitted, is_known, plainly
from spindle.mcp_protocol.names import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    HANDSHAKE_VERSIONS,
    LATEST_HANDSHAKE,
    LATEST_MODERN,
    LOG_LEVEL,
    MODERN_VERSIONS,
    PROTOCOL_VERSION,
    SUBSCRIPTION_ID,
)

VERSIONS = (LATEST_HANDSHAKE, LATEST_MODERN)
ASKED = [(method, VERSIONS[era]) for era, methods in enumerate(METHODS) for method in sorted(methods)]
ANSWERED = [
    (method, VERSIONS[era]) for era, shapes in enumerate(messages._RESULTS) for method in sorted(shapes)
]

VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-3, 3),
        st.floats(-2, 2),
        st.sampled_from(["", "text", "object", "1"]),
    ),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["a", "uri", "type"]), inner, max_size=2)
    ),
    max_leaves=4,
)


CAPABILITIES = {
    "elicitation": {"form": {}, "url": {}},
    "experimental": {"x": {"y": None}},
    "extensions": {"com.example/x": {}},
    "roots": {"listChanged": True},
    "sampling": {"context": {}, "tools": {}},
    "tasks": {
        "cancel": {},
        "list": {},
        "requests": {"elicitation": {"create": {}}, "sampling": {"createMessage": {}}},
    },
}
RESPONSES = {
    "form": {"action": "accept", "content": {"a": 1.5, "b": ["x"], "c": None, "d": True}},
    "roots": {"roots": [{"uri": "file:///x", "name": "x"}]},
}


def request_of(method: str, version: str) -> dict[str, Any]:
    """The parameters of a request with every field that there is."""
    params = example(CLIENT_REQUESTS[method, version]).get("params") or {}
    if version in MODERN_VERSIONS:
        info = example(CLIENT_REQUESTS["initialize", LATEST_HANDSHAKE])["params"]["clientInfo"]
        envelope = {PROTOCOL_VERSION: version, CLIENT_CAPABILITIES: CAPABILITIES, CLIENT_INFO: info}
        params["_meta"] = {**META, **envelope, LOG_LEVEL: "info", "progressToken": 5}
    given = {"capabilities": CAPABILITIES, "inputResponses": RESPONSES, "arguments": {"a": "b"}}
    return {name: given.get(name, value) for name, value in params.items()}


def result_of(method: str, version: str) -> dict[str, Any]:
    row: Any = SERVER_RESULTS[method, version]
    found = example(getattr(row, "__args__", (row,))[0])
    if method == "server/discover":
        found["capabilities"] |= {"experimental": {"x": {"y": None}}, "extensions": {"com.example/x": {}}}
    if method == "subscriptions/listen":
        found["_meta"] = {**META, SUBSCRIPTION_ID: 5}
    return found | ({"resultType": "complete"} if version in MODERN_VERSIONS else {})


@st.composite
def changed(draw: st.DrawFn, whole: dict[str, Any]) -> dict[str, Any]:
    """The same with a few places changed: something else in it, missing, or there besides."""
    whole = copy.deepcopy(whole)
    for _ in range(draw(st.integers(1, 3))):
        part: Any = whole
        while True:
            keys = sorted(part) if isinstance(part, dict) else list(range(len(part)))
            key = draw(st.sampled_from(keys)) if keys else None
            if key is None or not isinstance(part[key], (dict, list)) or draw(st.booleans()):
                break
            part = part[key]
        what = draw(st.sampled_from(["put", "null", "drop", "add"]))
        if what == "add" and isinstance(part, dict):
            part[draw(st.sampled_from(["unknown", "_meta", "title", "task", "ttl"]))] = draw(VALUES)
        elif key is not None and what == "drop":
            del part[key]
        elif key is not None:
            part[key] = None if what == "null" else draw(VALUES)
    return whole


def test_the_requests_of_each_version_are_the_sdks() -> None:
    for version in (*HANDSHAKE_VERSIONS, *MODERN_VERSIONS):
        theirs = {method for method, known in CLIENT_REQUESTS if known == version}
        assert {method for method in SPEC_CLIENT_METHODS if is_known(method, version)} == theirs
    assert frozenset().union(*METHODS) == SPEC_CLIENT_METHODS


@pytest.mark.parametrize(("method", "version"), ASKED)
def test_a_request_with_every_field_fits(method: str, version: str) -> None:
    params = request_of(method, version)
    validate_client_request(method, version, params)
    assert fits(method, version, params)
    assert fits(method, version, {**params, "unknown": 1})


@pytest.mark.parametrize(("method", "version"), ASKED)
def test_a_request_without_parameters_fits_where_it_needs_none(method: str, version: str) -> None:
    try:
        validate_client_request(method, version, None)
    except ValueError:
        assert not fits(method, version, None)
    else:
        assert fits(method, version, None)


@pytest.mark.parametrize(("method", "version"), ASKED)
def test_what_fits_of_requests_is_right(method: str, version: str) -> None:
    whole = request_of(method, version)

    @examples(60)
    @given(changed(whole))
    def judged(params: dict[str, Any]) -> None:
        if fits(method, version, params):
            validate_client_request(method, version, params)
            if method == "initialize":
                read = InitializeRequestParams.model_validate(params, by_name=False)
                theirs = read.model_dump(by_alias=True, mode="json", exclude_none=True)
                theirs.pop("_meta", None)
                assert plainly(CLIENT, params) == theirs

    judged()


@pytest.mark.parametrize(("method", "version"), ANSWERED)
def test_a_result_with_every_field_fits(method: str, version: str) -> None:
    result = result_of(method, version)
    assert fitted(method, version, result) == serialize_server_result(method, version, result)
    more = {**result, "unknown": 1}
    assert fitted(method, version, more) == serialize_server_result(method, version, more)


@pytest.mark.parametrize(("method", "version"), ANSWERED)
def test_what_fits_of_results_is_what_the_sdk_makes_of_them(method: str, version: str) -> None:
    whole = result_of(method, version)

    @examples(60)
    @given(changed(whole))
    def judged(result: dict[str, Any]) -> None:
        mine = fitted(method, version, result)
        if mine is not None:
            assert mine == serialize_server_result(method, version, result)

    judged()


def test_a_question_in_place_of_a_result_is_left_to_the_sdk() -> None:
    asked = {"resultType": "input_required", "inputRequests": {}, "requestState": "s"}
    assert fitted("tools/call", LATEST_MODERN, asked) is None
