"""http templates: what is sent, what comes back, and who is shown which credential."""

import asyncio
import json
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from utcp_service import OpenManual, Service, a_manual, a_tool

from spindle.domain.identity import Credential
from spindle.errors import (
    AuthError,
    ConfigurationError,
    ConnectionFailedError,
    InvalidArgumentsError,
    NotFoundError,
    RateLimitedError,
    ResultTooLargeError,
    ServerError,
)
from spindle.http.credentials import CredentialParts
from spindle.sources.utcp.requests import prepare, query_pairs
from spindle.sources.utcp.templates import HttpTemplate

KEY = {"auth_type": "api_key", "api_key": "$KEY"}


def http(service: Service, path: str = "/echo/x", **more: Any) -> dict[str, Any]:
    return {"call_template_type": "http", "url": f"{service.url}{path}", **more}


async def test_arguments_go_to_path_header_body_and_query(open_manual: OpenManual, service: Service) -> None:
    template = http(
        service,
        "/echo/users/{id}/posts?fixed=1",
        http_method="POST",
        headers={"X-Fixed": "yes"},
        header_fields=["X-Trace"],
        body_field="payload",
    )
    async with open_manual(a_manual(a_tool("t", template))) as opened:
        arguments = {"id": "a/b c", "X-Trace": 7, "payload": {"ä": [1, None]}, "flag": True, "n": 1.5}
        result = await opened.call("t", **arguments, tags=["x", "y z"], none=None, obj={"a": 1})
    sent = result.structured
    assert service.seen[-1]["method"] == "POST"
    assert sent["path"] == "/echo/users/a/b c/posts"
    assert sent["headers"] == {"x-fixed": "yes", "x-trace": "7", "content-type": "application/json"}
    assert json.loads(sent["body"]) == {"ä": [1, None]}
    assert sent["query"] == [
        ["fixed", "1"], ["flag", "true"], ["n", "1.5"], ["tags", "x"], ["tags", "y z"],
        ["none", ""], ["obj", '{"a":1}'],
    ]  # fmt: skip


async def test_what_follows_a_hash_in_a_url_takes_no_argument_and_no_query(
    open_manual: OpenManual, service: Service
) -> None:
    template = http(service, "/echo/x?fixed=1#part/{id}")
    async with open_manual(a_manual(a_tool("t", template))) as opened:
        sent = (await opened.call("t", id=7, q="a#b")).structured
    assert sent["path"] == "/echo/x"
    assert sent["query"] == [["fixed", "1"], ["id", "7"], ["q", "a#b"]]


@pytest.mark.parametrize(
    ("content_type", "value", "body"),
    [
        ("application/json", {"a": True}, '{"a":true}'),
        ("application/vnd.api+json", [1], "[1]"),
        ("application/x-www-form-urlencoded", {"a": "x y", "b": [1, 2], "c": True}, "a=x+y&b=1&b=2&c=true"),
        ("text/plain", "just text", "just text"),
        ("application/octet-stream", "raw", "raw"),
        ("application/xml", "<a/>", "<a/>"),
    ],
)
async def test_the_body_is_written_as_its_content_type_says(
    content_type: str, value: Any, body: str, open_manual: OpenManual, service: Service
) -> None:
    template = http(service, http_method="PUT", content_type=content_type)
    async with open_manual(a_manual(a_tool("t", template))) as opened:
        sent = (await opened.call("t", body=value)).structured
    assert sent["body"] == body
    assert sent["headers"]["content-type"] == content_type


async def test_a_header_of_the_template_decides_the_content_type(
    open_manual: OpenManual, service: Service
) -> None:
    template = http(service, http_method="POST", headers={"Content-Type": "text/plain"})
    async with open_manual(a_manual(a_tool("t", template))) as opened:
        sent = (await opened.call("t", body="x")).structured
    assert sent["headers"]["content-type"] == "text/plain"


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(min_size=1), JSON_VALUES, max_size=5))
def test_any_value_survives_the_query(arguments: dict[str, Any]) -> None:
    template = HttpTemplate(call_template_type="http", url="https://example.com/a?x=1", body_field=None)
    sent = urlsplit(prepare(template, _encodable(arguments), CredentialParts()).url)
    assert (sent.netloc, sent.path) == ("example.com", "/a")
    pairs = parse_qsl(sent.query, keep_blank_values=True, errors="surrogatepass")
    expected = [("x", "1")]
    for name, value in _encodable(arguments).items():
        items = value if isinstance(value, list) else [value]
        expected += [(name, _read_back(item)) for item in items]
    assert pairs == expected


def _encodable(value: Any) -> Any:
    return (
        json.loads(json.dumps(value).encode("utf-8", "replace").decode())
        if not _has_surrogates(value)
        else {}
    )


def _has_surrogates(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def _read_back(item: Any) -> str:
    if isinstance(item, str):
        return item
    if item is None:
        return ""
    if isinstance(item, bool):
        return str(item).lower()
    (pair,) = query_pairs("n", [item])
    ((_, text),) = parse_qsl(pair, keep_blank_values=True)
    assert json.loads(text) == item
    return text


@given(JSON_VALUES)
def test_any_value_survives_a_json_body(value: Any) -> None:
    template = HttpTemplate(call_template_type="http", url="https://example.com/", http_method="POST")
    content = prepare(template, {"body": value}, CredentialParts()).content
    assert content is not None
    assert json.loads(content) == value


@given(st.text(min_size=1).filter(lambda text: text not in (".", "..")))
def test_a_path_argument_stays_one_segment(value: str) -> None:
    template = HttpTemplate(call_template_type="http", url="https://example.com/a/{id}/b")
    if _has_surrogates(value):
        return
    path = urlsplit(prepare(template, {"id": value}, CredentialParts()).url).path
    assert path.count("/") == 3


@pytest.mark.parametrize("value", ["", ".", ".."])
async def test_a_path_argument_cannot_make_the_path_another_one(
    value: str, open_manual: OpenManual, service: Service
) -> None:
    async with open_manual(a_manual(a_tool("t", http(service, "/echo/{id}")))) as opened:
        with pytest.raises(InvalidArgumentsError, match="part of a path"):
            await opened.call("t", id=value)
        with pytest.raises(InvalidArgumentsError, match="id is missing: it is part of the URL"):
            await opened.call("t")
    assert not service.seen


async def test_an_argument_cannot_choose_the_server(open_manual: OpenManual) -> None:
    def at(url: str) -> dict[str, Any]:
        return {"call_template_type": "http", "url": url}

    manual = a_manual(
        a_tool("whole", at("https://{host}/a")),
        a_tool("port", at("https://{host}:8443/a")),
        a_tool("top", at("https://{name}.com/a")),
        a_tool("region", at("https://{region}.api.example.com/a")),
    )
    async with open_manual(manual) as opened:
        assert list(opened.tools) == ["region"]
        assert len([note for note in opened.notes if "an argument would choose the server" in note]) == 3
        for value in ("evil.example", "a@b", "x/", "a:1"):
            with pytest.raises(InvalidArgumentsError, match="part of a host"):
                await opened.call("region", region=value)


async def test_a_line_break_cannot_become_a_header(open_manual: OpenManual, service: Service) -> None:
    async with open_manual(a_manual(a_tool("t", http(service, header_fields=["h"])))) as opened:
        with pytest.raises(InvalidArgumentsError, match="line break"):
            await opened.call("t", h="a\r\nX-Evil: 1")


# --- answers


async def test_json_of_every_name_is_structured_and_text_is_text(
    open_manual: OpenManual, service: Service
) -> None:
    service.pages["/problem"] = Response('{"a": 1}', media_type="application/vnd.x+json")
    service.pages["/text"] = Response("1", media_type="text/plain")
    manual = a_manual(a_tool("p", http(service, "/problem")), a_tool("t", http(service, "/text")))
    async with open_manual(manual) as opened:
        assert (await opened.call("p")).structured == {"a": 1}
        text = await opened.call("t")
    assert text.text == "1"
    assert not text.has_structured


async def test_statuses_are_errors_with_their_body(open_manual: OpenManual, service: Service) -> None:
    service.pages["/busy"] = JSONResponse({"message": "later"}, 429, headers={"Retry-After": "7"})
    service.pages["/throttled"] = JSONResponse({"__type": "ThrottlingException"}, 400)
    paths = ("busy", "gone", "throttled")
    manual = a_manual(*[a_tool(path, http(service, f"/{path}")) for path in paths])
    async with open_manual(manual) as opened:
        with pytest.raises(RateLimitedError, match="status 400"):
            await opened.call("throttled")
        with pytest.raises(RateLimitedError, match="later") as busy:
            await opened.call("busy")
        with pytest.raises(NotFoundError) as gone:
            await opened.call("gone")
    assert busy.value.retry_after == 7
    assert gone.value.details == {"body": {"error": "nothing here"}}


async def test_an_answer_over_the_limit_is_refused(open_manual: OpenManual, service: Service) -> None:
    service.pages["/big"] = Response(b"x" * 5000, media_type="text/plain")
    async with open_manual(a_manual(a_tool("t", http(service, "/big"))), max_result_size=4000) as opened:
        with pytest.raises(ResultTooLargeError, match="larger than 4000 bytes"):
            await opened.call("t")


async def test_a_server_that_is_not_there_was_not_sent_to(open_manual: OpenManual) -> None:
    template = {"call_template_type": "http", "url": "http://127.0.0.1:1/"}
    async with open_manual(a_manual(a_tool("t", template))) as opened:
        with pytest.raises(ConnectionFailedError) as caught:
            await opened.call("t")
    assert not caught.value.sent


async def test_one_client_serves_all_calls(open_manual: OpenManual, service: Service) -> None:
    async with open_manual(a_manual(a_tool("t", http(service)))) as opened:
        results = await asyncio.gather(*(opened.call("t", n=n) for n in range(20)))
    assert [result.structured["query"] for result in results] == [[["n", str(n)]] for n in range(20)]


async def test_a_call_leaves_no_cookie_for_the_next(open_manual: OpenManual, service: Service) -> None:
    service.pages["/set"] = Response("x", headers={"Set-Cookie": "a=b"})
    manual = a_manual(a_tool("set", http(service, "/set")), a_tool("t", http(service)))
    async with open_manual(manual) as opened:
        await opened.call("set")
        assert (await opened.call("t")).structured["headers"] == {}


async def test_a_template_cannot_say_where_a_message_ends(open_manual: OpenManual, service: Service) -> None:
    headers = {"Transfer-Encoding": "chunked", "content-length": "3"}
    template = http(service, http_method="POST", headers=headers)
    async with open_manual(a_manual(a_tool("t", template))) as opened:
        assert (await opened.call("t", body="whole")).structured["body"] == '"whole"'


# --- auth


@pytest.mark.parametrize("location", ["header", "query", "cookie"])
async def test_an_api_key_is_shown_where_the_template_says(
    location: str, open_manual: OpenManual, service: Service
) -> None:
    auth = {**KEY, "var_name": "my-key", "location": location}
    manual = a_manual(a_tool("t", http(service, auth=auth)))
    async with open_manual(manual, auth_hosts=[service.url], variables={"KEY": "k-123"}) as opened:
        sent = (await opened.call("t", **{"my-key": "mine"} if location == "query" else {})).structured
    if location == "header":
        assert sent["headers"]["my-key"] == "k-123"
    elif location == "query":
        assert sent["query"] == [["my-key", "k-123"]]
    else:
        assert sent["headers"]["cookie"] == "my-key=k-123"


async def test_basic_auth_is_shown(open_manual: OpenManual, service: Service) -> None:
    auth = {"auth_type": "basic", "username": "$USER", "password": "${PASS}"}
    manual = a_manual(a_tool("t", http(service, auth=auth)))
    async with open_manual(manual, auth_hosts=[service.url], variables={"USER": "u", "PASS": "p"}) as opened:
        sent = (await opened.call("t")).structured
    assert sent["headers"]["authorization"] == "Basic dTpw"


def oauth(service: Service, **more: Any) -> dict[str, Any]:
    return {
        "auth_type": "oauth2",
        "token_url": f"{service.url}/token",
        "client_id": "me",
        "client_secret": "$SECRET",
        **more,
    }


async def test_a_token_is_fetched_once_for_parallel_calls(open_manual: OpenManual, service: Service) -> None:
    manual = a_manual(a_tool("t", http(service, "/protected", auth=oauth(service))))
    async with open_manual(manual, auth_hosts=[service.url], variables={"SECRET": "s3cr3t-value"}) as opened:
        await asyncio.gather(*(opened.call("t") for _ in range(10)))
    assert service.tokens_given == 1


async def test_a_refused_token_is_fetched_again_once(open_manual: OpenManual, service: Service) -> None:
    template = http(service, "/protected", http_method="POST", auth=oauth(service))
    async with open_manual(
        a_manual(a_tool("t", template)), auth_hosts=[service.url], variables={"SECRET": "s3cr3t-value"}
    ) as opened:
        await opened.call("t")
        service.good_tokens.clear()
        assert json.loads((await opened.call("t", body={"a": 1})).structured["body"]) == {"a": 1}
        assert service.tokens_given == 2
        service.good_tokens = _Never()
        with pytest.raises(AuthError):
            await opened.call("t")
    assert service.tokens_given == 3


class _Never(set[str]):
    def __contains__(self, _: object) -> bool:
        return False


async def test_a_wrong_secret_is_an_error_that_does_not_tell_it(
    open_manual: OpenManual, service: Service
) -> None:
    manual = a_manual(a_tool("t", http(service, "/protected", auth=oauth(service))))
    async with open_manual(manual, auth_hosts=[service.url], variables={"SECRET": "wrong-secret"}) as opened:
        with pytest.raises(AuthError, match="invalid_client: who are you") as caught:
            await opened.call("t")
    assert "wrong-secret" not in repr(caught.value.to_dict())


async def test_what_a_server_says_does_not_give_the_key_away(
    open_manual: OpenManual, service: Service
) -> None:
    service.pages["/no"] = JSONResponse({"message": "bad key k-12345 here"}, 403)
    manual = a_manual(a_tool("t", http(service, "/no", auth=KEY)))
    async with open_manual(manual, auth_hosts=[service.url], variables={"KEY": "k-12345"}) as opened:
        with pytest.raises(Exception, match="bad key •••") as caught:
            await opened.call("t")
    assert "k-12345" not in repr(caught.value.to_dict())  # type: ignore[attr-defined]


OWN = Credential(headers=(("Authorization", "Bearer own-token"),))


async def test_the_sources_own_credential_goes_to_the_manuals_server_only(
    open_manual: OpenManual, service: Service
) -> None:
    async with Service().running() as other:
        other_tool = {"call_template_type": "http", "url": f"{other.url}/echo/x"}
        service.tools = [
            a_tool("here", http(service)),
            a_tool("there", other_tool),
            a_tool("own", http(service, auth={**KEY, "api_key": "mine"})),
        ]
        async with open_manual(at=f"{service.url}/utcp", credential=OWN) as opened:
            assert service.seen[0]["headers"]["authorization"] == "Bearer own-token"
            here = (await opened.call("here")).structured
            there = (await opened.call("there")).structured
            own = (await opened.call("own")).structured
    assert here["headers"]["authorization"] == "Bearer own-token"
    assert "authorization" not in there["headers"]
    assert own["headers"] == {"x-api-key": "mine"}


async def test_a_key_without_a_name_is_the_usual_header_where_the_manual_does_not_say(
    open_manual: OpenManual, service: Service
) -> None:
    nameless = Credential(headers=(("", "own-key"),))
    service.tools = [
        a_tool("plain", http(service)),
        a_tool("own", http(service, auth={**KEY, "api_key": "mine"})),
    ]
    async with open_manual(at=f"{service.url}/utcp", credential=nameless) as opened:
        assert (await opened.call("plain")).structured["headers"] == {"x-api-key": "own-key"}
        assert (await opened.call("own")).structured["headers"] == {"x-api-key": "mine"}


# --- redirects and places


async def test_credentials_do_not_follow_a_redirect_to_another_origin(
    open_manual: OpenManual, service: Service
) -> None:
    async with Service().running() as other:
        auth = {**KEY, "var_name": "X-Strange"}
        manual = a_manual(a_tool("t", http(service, "/redirect", auth=auth, headers={"X-More": "secret"})))
        async with open_manual(manual, auth_hosts=[service.url], variables={"KEY": "k-123"}) as opened:
            there = (await opened.call("t", to=f"{other.url}/echo/x")).structured
            here = (await opened.call("t", to="/echo/y")).structured
    assert there["headers"] == {}
    assert here["headers"] == {"x-strange": "k-123", "x-more": "secret"}


async def test_redirects_end(open_manual: OpenManual, service: Service) -> None:
    service.pages["/loop"] = RedirectResponse("/loop")
    async with open_manual(a_manual(a_tool("t", http(service, "/redirect")))) as opened:
        with pytest.raises(ServerError, match="redirected more than 5 times"):
            await opened.call("t", to="/loop")
        with pytest.raises(ServerError, match="redirects to file:"):
            await opened.call("t", to="file:///etc/passwd")
        with pytest.raises(ConfigurationError, match="where others can listen"):
            await opened.call("t", to="http://example.com/")


async def test_a_manual_from_elsewhere_may_not_lead_here(
    open_manual: OpenManual, service: Service, names: dict[str, list[str]]
) -> None:
    names["intern.example"] = ["127.0.0.1"]
    inside = service.url.replace("127.0.0.1", "localhost")
    service.tools = [
        a_tool("named", {"call_template_type": "http", "url": f"{inside}/echo/x"}),
        a_tool("metadata", {"call_template_type": "http", "url": "https://169.254.169.254/"}),
        a_tool("hidden", {"call_template_type": "http", "url": "https://intern.example/"}),
    ]
    async with open_manual(at=f"{service.public_url}/utcp") as opened:
        assert list(opened.tools) == ["hidden"]
        assert [note for note in opened.notes if "private network" in note] == opened.notes
        with pytest.raises(ConfigurationError, match=r"intern\.example, which is on this machine"):
            await opened.call("hidden")
    async with open_manual(at=f"{service.public_url}/utcp", allow_private=True) as opened:
        assert (await opened.call("named")).structured["path"] == "/echo/x"


async def test_plain_http_is_for_this_machine(open_manual: OpenManual) -> None:
    template = {"call_template_type": "http", "url": "http://example.com/"}
    async with open_manual(a_manual(a_tool("t", template))) as opened:
        assert not opened.tools
        assert "others can listen to http://example.com" in opened.notes[0]
    async with open_manual(a_manual(a_tool("t", template)), allow_insecure=True) as opened:
        assert list(opened.tools) == ["t"]


async def test_an_html_page_is_said_to_be_one(open_manual: OpenManual, service: Service) -> None:
    service.pages["/login"] = HTMLResponse("<!DOCTYPE html><html>Log in</html>")
    with pytest.raises(ConfigurationError, match="/login is an HTML page, not a UTCP manual"):
        async with open_manual(at=f"{service.url}/login"):
            pass
