"""Consent on another device."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.responses import JSONResponse, Response

from auth.conftest import Bench, Turned, oauth_config
from servers.odd_provider import DOWN, PAGE, OddProvider, problem
from spindle.auth.oauth import DeviceLogin
from spindle.domain.identity import LOCAL
from spindle.domain.source import SourceConfig
from spindle.errors import AuthError, ConfigurationError, SpindleError

GIVEN = {
    "device_code": "planted-device-code", "user_code": "ABCD-EFGH", "expires_in": 90, "interval": 3,
    "verification_uri": "https://login.example/device",
}  # fmt: skip


class Waits:
    """Instead of sleeping: remembers for how long, and lets the clock go on."""

    def __init__(self, turned: Turned) -> None:
        self.seconds: list[float] = []
        self._turned = turned

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        self._turned.offset += seconds


@pytest.fixture
def waits(turned: Turned) -> Waits:
    return Waits(turned)


@pytest.fixture
def config(odd: OddProvider) -> SourceConfig:
    odd.metadata["device_authorization_endpoint"] = f"{odd.base}/device"
    odd.other_answers["/device"] = JSONResponse(GIVEN)
    return oauth_config(odd.url, client_id="c")


async def wait(bench: Bench, login: DeviceLogin, waits: Waits) -> Any:
    return await bench.oauth._oauth.device.wait(login, waits)  # pyright: ignore[reportPrivateUsage] - without real time


async def test_it_is_asked_again_at_the_pace_that_the_provider_sets(
    bench: Bench, odd: OddProvider, config: SourceConfig, waits: Waits
) -> None:
    login = await bench.oauth.begin_device(bench.source("s", config), LOCAL)
    assert (login.user_code, login.verification_url) == ("ABCD-EFGH", "https://login.example/device")
    assert "planted-device-code" not in repr(login)
    pending = problem("authorization_pending")
    odd.token_answers = [pending, problem("slow_down"), DOWN, pending]
    done = await wait(bench, login, waits)
    assert done.denied is None
    assert waits.seconds == [3, 3, 8, 13, 13]
    assert await bench.oauth.token("s", config, LOCAL) == "odd-access-1"


async def test_a_user_who_says_no_or_nothing_is_told_apart(
    bench: Bench, odd: OddProvider, config: SourceConfig, waits: Waits
) -> None:
    login = await bench.oauth.begin_device(bench.source("s", config), LOCAL)
    odd.token_answers = [problem("access_denied")]
    assert "access_denied" in ((await wait(bench, login, waits)).denied or "")
    odd.token_answers = [problem("expired_token")]
    with pytest.raises(AuthError, match="expired before it was entered"):
        await wait(bench, login, waits)
    odd.token_answers = [problem("authorization_pending") for _ in range(500)]
    with pytest.raises(AuthError, match="expired before it was entered"):
        await wait(bench, login, waits)
    odd.token_answers = [problem("invalid_grant", error_description="planted-device-code")]
    with pytest.raises(AuthError, match="invalid_grant") as refused:
        await wait(bench, await bench.oauth.begin_device(bench.source("s", config), LOCAL), waits)
    assert "planted-device-code" not in str(refused.value)


async def test_a_provider_without_device_logins_says_so(bench: Bench, odd: OddProvider) -> None:
    with pytest.raises(ConfigurationError, match="no login for other devices"):
        await bench.oauth.begin_device(bench.source("s", oauth_config(odd.url, client_id="c")), LOCAL)


@pytest.mark.parametrize(
    "answer",
    [PAGE, DOWN, JSONResponse(GIVEN | {"verification_uri": "javascript:x"}), JSONResponse({"user_code": 1})],
)
async def test_an_answer_that_cannot_be_used_is_an_error(
    bench: Bench, odd: OddProvider, config: SourceConfig, answer: Response
) -> None:
    odd.other_answers["/device"] = answer
    with pytest.raises(SpindleError):
        await bench.oauth.begin_device(bench.source("s", config), LOCAL)
