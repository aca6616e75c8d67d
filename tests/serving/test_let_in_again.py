"""Connections that show once more what they were let in with."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spindle.domain.serve import ServeConfig
from spindle.listening.connections import CONNECTION
from spindle.serving.access import PRINCIPAL, ServingAccess
from spindle.serving.guard import Guard

TOKENS = {"ann": {"token": "a" * 20}, "bob": {"token": "b" * 20}}


class Door:
    """A guard, and one connection through it."""

    def __init__(self, **settings: Any) -> None:
        self.access = ServingAccess.of(ServeConfig.model_validate({"tokens": TOKENS, **settings}))
        self.guard = Guard(self._inside, self.access)
        self.connection = SimpleNamespace(known=False, admitted=None)
        self.seen: list[str] = []

    async def _inside(self, scope: Any, receive: Any, send: Any) -> None:
        self.seen.append(scope[PRINCIPAL].id)
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def request(self, token: str | None, host: str = "127.0.0.1", **more: str) -> int:
        headers = [
            (b"host", host.encode()),
            *((name.encode(), value.encode()) for name, value in more.items()),
        ]
        if token is not None:
            headers.append((b"authorization", f"Bearer {token}".encode()))
        statuses: list[int] = []

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        scope = {
            "type": "http", "method": "POST", "path": "/mcp", "headers": headers, "query_string": b"",
            "client": ("127.0.0.1", 1), CONNECTION: self.connection,
        }  # fmt: skip
        await self.guard(scope, None, send)  # pyright: ignore[reportArgumentType]
        return statuses[0]


async def test_one_connection_may_be_of_several_clients_and_none_is_taken_for_another() -> None:
    door = Door()
    for token, status in (("a" * 20, 200), ("a" * 20, 200), ("b" * 20, 200), ("c" * 20, 401), (None, 401)):
        assert await door.request(token) == status
    assert await door.request("a" * 20) == 200
    assert door.seen == ["ann", "ann", "bob", "ann"]


async def test_the_name_of_the_server_is_looked_at_each_time() -> None:
    door = Door()
    assert await door.request("a" * 20) == 200
    assert await door.request("a" * 20, host="evil.example") == 421
    assert await door.request("a" * 20, origin="https://evil.example") == 403
    assert door.seen == ["ann"]


async def test_other_settings_are_in_force_at_the_next_request() -> None:
    door = Door()
    assert await door.request("a" * 20) == 200
    door.access.adopt(ServeConfig.model_validate({"tokens": {"bob": TOKENS["bob"]}}))
    assert await door.request("a" * 20) == 401
    assert await door.request("b" * 20) == 200


JWT = {"issuer": "https://x.example", "audience": "y", "jwks_url": "https://x.example/keys"}


@pytest.mark.parametrize("settings", [{"rate_limit": {"calls": 100, "seconds": 1}}, {"jwt": JWT}])
async def test_nothing_is_remembered_where_each_request_counts_or_tokens_end(settings: Any) -> None:
    door = Door(**settings)
    assert await door.request("a" * 20) == 200
    assert door.connection.admitted is None


async def test_a_body_that_is_too_large_is_refused_on_a_known_connection() -> None:
    door = Door(max_body_size=10)
    assert await door.request("a" * 20) == 200
    assert await door.request("a" * 20, **{"content-length": "11"}) == 413
