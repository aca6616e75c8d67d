"""Redirects, case by case, through every part of Spindle that follows them."""

import pytest
from outbound import ANY_METHOD, FOLLOWING

from servers.echo_server import PUBLIC, Answer, EchoServer
from spindle.errors import (
    ConnectionFailedError,
    ServerError,
    SpindleError,
)

END = Answer(b"event: endpoint\ndata: /post\n\n", headers={"content-type": "text/event-stream"})
SECRETS = {"authorization": "Bearer s3cret", "cookie": "a=s3cret", "x-key": "s3cret"}

# What a redirect makes of a method, and whether the body goes on.
METHODS = {
    (301, "GET"): ("GET", False), (301, "HEAD"): ("HEAD", False),
    (301, "POST"): ("GET", False), (301, "PUT"): ("PUT", True),
    (302, "GET"): ("GET", False), (302, "HEAD"): ("HEAD", False),
    (302, "POST"): ("GET", False), (302, "PUT"): ("PUT", True),
    (303, "GET"): ("GET", False), (303, "HEAD"): ("HEAD", False),
    (303, "POST"): ("GET", False), (303, "PUT"): ("GET", False),
    (307, "GET"): ("GET", False), (307, "HEAD"): ("HEAD", False),
    (307, "POST"): ("POST", True), (307, "PUT"): ("PUT", True),
    (308, "GET"): ("GET", False), (308, "HEAD"): ("HEAD", False),
    (308, "POST"): ("POST", True), (308, "PUT"): ("PUT", True),
}  # fmt: skip


@pytest.mark.parametrize(
    ("who", "status", "method"),
    # All others send nothing but GET.
    [(who, *case) for who in FOLLOWING for case in METHODS if who in ANY_METHOD or case[1] == "GET"],
)
async def test_a_redirect_keeps_or_changes_method_and_body(
    who: str, status: int, method: str, echo: EchoServer
) -> None:
    echo.answers |= {"/a": Answer(b"", status, {"location": "/b"}), "/b": END}
    content = b"{}" if method in ("POST", "PUT") else None
    headers = {"content-type": "application/json"} if content else {}
    await FOLLOWING[who](method, f"{echo.url}/a", headers, content)
    first, second = echo.requests
    expected = METHODS[status, method]
    assert (second.line.split()[0], bool(second.body)) == expected
    assert first.line.split()[0] == method
    assert ("content-type" in dict(second.headers)) == expected[1]


# Parts that keep to the origin of their first request.
STAYING = ("legacy_sse",)


@pytest.mark.parametrize("who", FOLLOWING)
async def test_credentials_stay_with_their_origin(
    who: str, echo: EchoServer, names: dict[str, list[str]]
) -> None:
    names["else.test"] = [PUBLIC]
    elsewhere = echo.public_url
    echo.answers |= {"/a": Answer(b"", 307, {"location": f"{elsewhere}/b"}), "/b": END}
    if who in STAYING:
        with pytest.raises(ServerError, match="another origin"):
            await FOLLOWING[who]("GET", f"{echo.url}/a", SECRETS, None)
        return
    await FOLLOWING[who]("GET", f"{echo.url}/a", SECRETS, None)
    if who != "oauth":  # it shows none where it follows redirects
        assert echo.requests[0].own_headers.items() >= SECRETS.items()
    assert echo.last.address == PUBLIC
    assert "s3cret" not in repr(echo.last)


@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize("who", ANY_METHOD)
async def test_a_body_follows_to_another_origin_without_credentials(
    who: str, status: int, echo: EchoServer, names: dict[str, list[str]]
) -> None:
    echo.answers |= {"/a": Answer(b"", status, {"location": f"{echo.public_url}/b"}), "/b": END}
    headers = {**SECRETS, "content-type": "application/json"}
    await FOLLOWING[who]("POST", f"{echo.url}/a", headers, b'{"a": 1}')
    assert (echo.last.address, echo.last.body) == (PUBLIC, b'{"a": 1}')
    assert dict(echo.last.headers)["content-type"] == "application/json"
    assert "s3cret" not in repr(echo.last.headers)


@pytest.mark.parametrize("who", FOLLOWING)
async def test_credentials_go_on_within_their_origin(who: str, echo: EchoServer) -> None:
    echo.answers |= {"/a": Answer(b"", 302, {"location": f"{echo.url}/b", "set-cookie": "c=1"}), "/b": END}
    await FOLLOWING[who]("GET", f"{echo.url}/a", SECRETS, None)
    if who == "oauth":
        return
    shown = echo.last.own_headers
    # The one session of that transport keeps cookies too.
    shown["cookie"] = shown["cookie"].removesuffix("; c=1") if who == "legacy_sse" else shown["cookie"]
    assert shown.items() >= SECRETS.items()
    assert echo.last.target == "/b"


MOST = {"openapi": 5, "utcp": 5, "documents": 5, "oauth": 3, "legacy_sse": 5}


@pytest.mark.parametrize("who", FOLLOWING)
async def test_redirects_in_a_circle_end(who: str, echo: EchoServer) -> None:
    echo.answers["/a"] = Answer(b"", 302, {"location": "/a"})
    with pytest.raises(ServerError, match=f"redirected more than {MOST[who]} times"):
        await FOLLOWING[who]("GET", f"{echo.url}/a", {}, None)
    assert len(echo.requests) == MOST[who] + 1


@pytest.mark.parametrize("who", FOLLOWING)
async def test_as_many_redirects_as_allowed_are_followed(who: str, echo: EchoServer) -> None:
    most = MOST[who]
    echo.answers |= {f"/{n}": Answer(b"", 302, {"location": f"/{n + 1}"}) for n in range(most)}
    echo.answers[f"/{most}"] = END
    await FOLLOWING[who]("GET", f"{echo.url}/0", {}, None)
    assert len(echo.requests) == most + 1


# A `Location` that leads nowhere is the server's fault.
NOWHERE = {"invalid": "http://a:b", "another scheme": "file:///etc/passwd", "script": "javascript:alert(1)"}


@pytest.mark.parametrize("case", NOWHERE)
@pytest.mark.parametrize("who", FOLLOWING)
async def test_a_redirect_to_nowhere_is_an_error_of_the_server(who: str, case: str, echo: EchoServer) -> None:
    echo.answers["/a"] = Answer(b"", 302, {"location": NOWHERE[case]})
    with pytest.raises(ServerError, match="redirects to"):
        await FOLLOWING[who]("GET", f"{echo.url}/a", {}, None)
    assert len(echo.requests) == 1


@pytest.mark.parametrize("who", FOLLOWING)
async def test_a_redirect_without_a_location_is_an_answer(who: str, echo: EchoServer) -> None:
    echo.answers["/a"] = Answer(b"{}", 302)
    try:
        found: object = await FOLLOWING[who]("GET", f"{echo.url}/a", {}, None)
    except SpindleError as error:
        found = error.status
    assert "302" in repr(found)
    assert len(echo.requests) == 1


@pytest.mark.parametrize("who", ["openapi", "documents"])
async def test_credentials_do_not_follow_from_https_to_http(
    who: str, echo: EchoServer, secure: EchoServer, names: dict[str, list[str]]
) -> None:
    names["good.test"] = [PUBLIC]
    plain = f"{echo.public_url.replace(PUBLIC, 'good.test')}/b"
    secure.answers["/a"] = Answer(b"", 302, {"location": plain})
    await FOLLOWING[who]("GET", f"{secure.url}/a", SECRETS, None)
    assert secure.last.own_headers.items() >= SECRETS.items()
    assert echo.last.target == "/b"
    assert "s3cret" not in repr(echo.last)


@pytest.mark.parametrize("who", ["openapi", "utcp", "documents"])
async def test_a_server_outside_may_not_lead_inside(
    who: str, echo: EchoServer, names: dict[str, list[str]]
) -> None:
    echo.answers["/a"] = Answer(b"", 302, {"location": f"{echo.url}/b"})
    with pytest.raises(SpindleError, match="on this machine or a private network") as caught:
        await FOLLOWING[who]("GET", f"{echo.public_url}/a", {}, None)
    assert not isinstance(caught.value, ConnectionFailedError)
    assert len(echo.requests) == 1
