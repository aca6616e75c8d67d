"""websocket templates against a real server: messages, turns, headers, and what ends a connection."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from utcp_service import OpenManual, Service, a_manual, a_tool
from websockets.asyncio.server import ServerConnection, serve
from websockets.typing import Subprotocol

from servers.echo_server import PUBLIC
from spindle.domain.identity import Credential
from spindle.errors import (
    AuthError,
    CallTimeoutError,
    ConfigurationError,
    ConnectionFailedError,
    InvalidArgumentsError,
    ResultTooLargeError,
    ServerError,
)
from spindle.sources.utcp.sockets import message_of


class Sockets:
    """A WebSocket server; `behaves` decides what it does with a message."""

    def __init__(self) -> None:
        self.url = ""
        self.connections: list[ServerConnection] = []
        self.received: list[str] = []
        self.behaves: Callable[[ServerConnection, str], Awaitable[None]] = self.echo

    async def echo(self, connection: ServerConnection, text: str) -> None:
        await connection.send(text)

    async def handle(self, connection: ServerConnection) -> None:
        self.connections.append(connection)
        async for message in connection:
            assert isinstance(message, str)
            self.received.append(message)
            await self.behaves(connection, message)

    @property
    def host(self) -> str:
        return self.url.partition("://")[2].partition("/")[0]

    def template(self, **more: Any) -> dict[str, Any]:
        return {"call_template_type": "websocket", "url": self.url, **more}


@pytest.fixture
async def sockets() -> AsyncIterator[Sockets]:
    made = Sockets()

    def select(_: ServerConnection, offered: Sequence[Subprotocol]) -> Subprotocol | None:
        return offered[0] if offered else None

    async with serve(made.handle, "127.0.0.1", 0, select_subprotocol=select) as server:
        made.url = f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}/ws"
        yield made


def arg(name: str) -> str:
    return f"UTCP_ARG_{name}_UTCP_ARG"


async def test_without_a_message_the_arguments_are_sent_as_json(
    open_manual: OpenManual, sockets: Sockets
) -> None:
    manual = a_manual(
        a_tool("json", sockets.template(response_format="json")),
        a_tool("text", sockets.template(response_format="text")),
        a_tool("raw", sockets.template()),
    )
    async with open_manual(manual) as opened:
        assert (await opened.call("json", a=1, b=[True])).structured == {"a": 1, "b": [True]}
        assert (await opened.call("text", a=1)).text == '{"a":1}'
        raw = await opened.call("raw", a=1)
    assert not raw.has_structured
    assert len(sockets.connections) == 1


async def test_a_template_keeps_the_types_of_arguments(open_manual: OpenManual, sockets: Sockets) -> None:
    message = {
        "op": "add",
        "n": arg("n"),
        "text": f"<{arg('n')}>",
        "deep": [arg("list"), {"x": arg("left_out")}],
    }
    manual = a_manual(a_tool("t", sockets.template(message=message, response_format="json")))
    async with open_manual(manual) as opened:
        result = await opened.call("t", n=5, list=[1, None])
    assert result.structured == {"op": "add", "n": 5, "text": "<5>", "deep": [[1, None], {}]}


async def test_a_text_template_is_filled(open_manual: OpenManual, sockets: Sockets) -> None:
    manual = a_manual(a_tool("t", sockets.template(message=f"CMD {arg('a')};{arg('b')}")))
    async with open_manual(manual) as opened:
        assert (await opened.call("t", a="x", b=True)).text == "CMD x;true"
        with pytest.raises(InvalidArgumentsError, match="b is missing"):
            await opened.call("t", a="x")


VALUES = st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.text(), max_size=2)


@given(VALUES, st.text())
def test_no_value_breaks_out_of_a_json_message(value: Any, quoted: str) -> None:
    template = f'{{"bare": {arg("v")}, "quoted": "<{arg("q")}>", "both": "{arg("v")}\\""}}'
    read = json.loads(message_of(template, {"v": value, "q": quoted}))
    assert read["bare"] == value
    assert read["quoted"] == f"<{quoted}>"
    assert read.keys() == {"bare", "quoted", "both"}


async def test_each_call_gets_its_own_answer(open_manual: OpenManual, sockets: Sockets) -> None:
    waiting: list[str] = []

    async def one_at_a_time(connection: ServerConnection, text: str) -> None:
        waiting.append(text)
        assert len(waiting) == 1
        await asyncio.sleep(0)
        await connection.send(waiting.pop())

    sockets.behaves = one_at_a_time
    async with open_manual(a_manual(a_tool("t", sockets.template(response_format="json")))) as opened:
        results = await asyncio.gather(*(opened.call("t", n=n) for n in range(50)))
    assert [result.structured["n"] for result in results] == list(range(50))
    assert len(sockets.connections) == 1


async def test_a_late_answer_reaches_nobody(open_manual: OpenManual, sockets: Sockets) -> None:
    arrived = asyncio.Event()

    async def slow_for_one(connection: ServerConnection, text: str) -> None:
        if "slow" in text:
            arrived.set()
        else:
            await connection.send(text)

    sockets.behaves = slow_for_one
    async with open_manual(a_manual(a_tool("t", sockets.template()))) as opened:
        call = asyncio.create_task(opened.call("t", m="slow"))
        await arrived.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await opened.call("t", m="fast")).text == '{"m":"fast"}'
    assert len(sockets.connections) == 2


async def test_the_templates_own_time_is_kept(open_manual: OpenManual, sockets: Sockets) -> None:
    async def never(_: ServerConnection, __: str) -> None:
        pass

    sockets.behaves = never
    async with open_manual(a_manual(a_tool("t", sockets.template(timeout=0.1)))) as opened:
        with pytest.raises(CallTimeoutError, match="`timeout` of its call template"):
            await opened.call("t")


async def test_headers_and_auth_are_shown_with_the_handshake(
    open_manual: OpenManual, sockets: Sockets
) -> None:
    auth = {"auth_type": "api_key", "api_key": "$KEY", "var_name": "X-Key"}
    template = sockets.template(auth=auth, headers={"X-Fixed": "1"}, header_fields=["X-User"], protocol="v1")
    async with open_manual(
        a_manual(a_tool("t", template)), auth_hosts=[sockets.host], variables={"KEY": "k"}
    ) as opened:
        first = await opened.call("t", **{"X-User": "a", "n": 1})
        await opened.call("t", **{"X-User": "b"})
    assert first.text == '{"n":1}'
    shown = [connection.request.headers for connection in sockets.connections if connection.request]
    assert [(headers["X-Key"], headers["X-Fixed"], headers["X-User"]) for headers in shown] == [
        ("k", "1", "a"), ("k", "1", "b"),
    ]  # fmt: skip
    assert sockets.connections[0].subprotocol == "v1"


async def test_keys_in_query_and_cookie_and_tokens_are_shown(
    open_manual: OpenManual, sockets: Sockets, service: Service
) -> None:
    def key(location: str) -> dict[str, Any]:
        return {"auth_type": "api_key", "api_key": "a b", "var_name": "k", "location": location}

    token = {
        "auth_type": "oauth2", "token_url": f"{service.url}/token", "client_id": "me", "client_secret": "$S",
    }  # fmt: skip
    manual = a_manual(
        a_tool("query", sockets.template(auth=key("query"))),
        a_tool("cookie", sockets.template(auth=key("cookie"))),
        a_tool("token", sockets.template(auth=token)),
    )
    async with open_manual(
        manual, auth_hosts=[sockets.host, service.url], variables={"S": "s3cr3t-value"}
    ) as opened:
        for name in opened.tools:
            await opened.call(name)
    requests = [connection.request for connection in sockets.connections if connection.request]
    assert requests[0].path == "/ws?k=a%20b"
    assert requests[1].headers["Cookie"] == "k=a b"
    assert requests[2].headers["Authorization"] == "Bearer token-1"


async def test_a_key_without_a_name_is_the_usual_header_of_a_handshake(
    open_manual: OpenManual, sockets: Sockets
) -> None:
    nameless = Credential(headers=(("", "key"),))
    for hosts, sent in (([sockets.host], "key"), ([], None)):
        manual = a_manual(a_tool("t", sockets.template()))
        async with open_manual(manual, credential=nameless, auth_hosts=hosts) as opened:
            await opened.call("t")
        request = sockets.connections[-1].request
        assert request is not None
        assert request.headers.get("X-API-Key") == sent


async def test_a_wrong_secret_is_not_told(
    open_manual: OpenManual, sockets: Sockets, service: Service
) -> None:
    token = {
        "auth_type": "oauth2",
        "token_url": f"{service.url}/token",
        "client_id": "me",
        "client_secret": "$S",
    }
    async with open_manual(
        a_manual(a_tool("t", sockets.template(auth=token))),
        auth_hosts=[sockets.host, service.url],
        variables={"S": "wrong-one"},
    ) as opened:
        with pytest.raises(AuthError) as caught:
            await opened.call("t")
    assert "wrong-one" not in repr(caught.value.to_dict())


async def test_a_lost_connection_is_opened_again(open_manual: OpenManual, sockets: Sockets) -> None:
    async def closes(connection: ServerConnection, _: str) -> None:
        await connection.close()

    async with open_manual(a_manual(a_tool("t", sockets.template()))) as opened:
        await opened.call("t")
        sockets.behaves = closes
        with pytest.raises(ConnectionFailedError):
            await opened.call("t")
        sockets.behaves = sockets.echo
        assert (await opened.call("t")).text == "{}"


async def test_answers_that_are_too_large_or_no_text_are_errors(
    open_manual: OpenManual, sockets: Sockets
) -> None:
    async def large(connection: ServerConnection, _: str) -> None:
        await connection.send("x" * 5000)

    async def binary(connection: ServerConnection, _: str) -> None:
        await connection.send(b"\xff")

    async with open_manual(a_manual(a_tool("t", sockets.template())), max_result_size=4000) as opened:
        sockets.behaves = large
        with pytest.raises(ResultTooLargeError):
            await opened.call("t")
        sockets.behaves = binary
        with pytest.raises(ServerError, match="cannot be read"):
            await opened.call("t")


async def test_plain_ws_is_for_this_machine(open_manual: OpenManual) -> None:
    template = {"call_template_type": "websocket", "url": "ws://example.com/"}
    async with open_manual(a_manual(a_tool("t", template))) as opened:
        assert not opened.tools
    template = {"call_template_type": "websocket", "url": "ws://${HOST}/"}
    async with open_manual(
        a_manual(a_tool("t", template)), auth_hosts=["ws://example.com"], variables={"HOST": "example.com"}
    ) as opened:
        with pytest.raises(ConfigurationError, match="where others can listen") as caught:
            await opened.call("t")
    assert "use wss" in str(caught.value.hint)


async def test_a_manual_that_a_websocket_service_gives_is_read(
    open_manual: OpenManual, sockets: Sockets
) -> None:
    async def gives_manual(connection: ServerConnection, text: str) -> None:
        is_question = json.loads(text) == {"type": "utcp"}
        tool = a_tool("t", sockets.template())
        await connection.send(json.dumps(a_manual(tool)) if is_question else text)

    sockets.behaves = gives_manual
    with pytest.raises(ConfigurationError, match="by websocket, which is not allowed"):
        async with open_manual(sockets.template()):
            pass
    async with open_manual(sockets.template(), allowed_protocols=["websocket"]) as opened:
        assert (await opened.call("t", a=1)).text == '{"a":1}'


@pytest.mark.parametrize(
    ("addresses", "remote"),
    [([PUBLIC, "127.0.0.1"], True), (["127.0.0.1"], False)],
    ids=["outside", "inside"],
)
async def test_a_websocket_service_is_judged_by_the_address_that_gave_the_manual(
    addresses: list[str], remote: bool, open_manual: OpenManual, names: dict[str, list[str]]
) -> None:
    """Its name may lead elsewhere when it is asked for once more."""
    sockets = Sockets()

    async def gives_manual(connection: ServerConnection, text: str) -> None:
        await connection.send(json.dumps(a_manual(a_tool("t", sockets.template()))))

    sockets.behaves = gives_manual
    names["changing.test"] = addresses
    async with serve(sockets.handle, addresses[0], 0) as server:
        sockets.url = f"ws://changing.test:{next(iter(server.sockets)).getsockname()[1]}/"
        settings = {"allowed_protocols": ["websocket"], "allow_insecure": True}
        async with open_manual(sockets.template(), **settings) as opened:
            assert opened.tools["t"].spec.metadata["remote"] is remote
