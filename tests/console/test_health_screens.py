"""The screens of health and settings."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

import spindle
from spindle.app import Spindle
from spindle.console.examination import Examination, Finding
from spindle.console.rendering import in_bytes
from spindle.console.screen import Look
from spindle.console.screens.health import examine, health, settings
from spindle.console.settings_lines import shown_value
from spindle.domain.identity import Principal
from spindle.domain.serve import ServeConfig
from spindle.errors import CallTimeoutError
from spindle.serving.access import ServingAccess
from spindle.serving.browser_sessions import BrowserSessions

OWNER = Principal("local", admin=True)
SETTINGS = """
[serve]
exposed_tools = ["lok"]

[retention.calls]
age = "7d"

[engine.queues.slow]
concurrency = 2

[sources.gone]
url = "https://ann:pass@127.0.0.1:9/mcp?key=a-secret"
headers = { Authorization = "Bearer a-secret", X-Other = "${OTHER}" }

[serve.tokens.robot]
token = "a-secret"
"""


@pytest.fixture
async def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Spindle]:
    monkeypatch.delenv("OTHER", raising=False)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "t.py").write_text(
        "from spindle import tool\n@tool\ndef look() -> int:\n    return 1\n"
    )
    (tmp_path / "spindle.toml").write_text(SETTINGS)
    async with spindle.open(tmp_path) as opened:
        await opened.sync("tools")
        yield opened


def looking(
    app: Spindle, query: dict[str, str] | None = None, examination: Examination | None = None
) -> Look:
    access = ServingAccess.of(ServeConfig(console=True))
    access.sessions = BrowserSessions(app, alone=True)
    return Look(app, access, OWNER, time.time(), query or {}, {}, is_owner=True, examination=examination)


async def test_what_is_known_to_be_wrong_is_said_with_its_way_out(app: Spindle) -> None:
    found = await health(looking(app))
    said = {finding.subject: finding for finding in found.findings}
    assert "OTHER" in said["gone"].message
    assert said["gone"].level == "problem"
    assert "did you mean 'look'?" in said["serve"].message
    assert found.problems == 1
    assert found.store_size > 0
    assert next(line for line in found.keeps if line.what == "records of calls").age == 7 * 86400
    assert {line.name: line.config.concurrency for line in found.queues} == {"default": 10, "slow": 2}
    assert (found.examined, found.may_examine) == (None, False)


async def test_settings_have_their_place_and_no_secret(app: Spindle) -> None:
    shown = await settings(looking(app))
    lines = {line.path: line for line in shown.page.items}
    assert lines["serve.exposed_tools"].origin == "spindle.toml:3"
    assert lines["retention.calls.age"].value == '"7d"'
    assert lines["sources.gone.headers.X-Other"].value == '"${OTHER}"'
    assert "a-secret" not in repr(shown)
    assert "ann" not in lines["sources.gone.url"].value
    assert [line.path for line in (await settings(looking(app, {"q": "RETENTION"}))).page.items] == [
        "retention.calls.age"
    ]
    # Defaults come from what the settings mean once they are read, so that must be possible.
    (app.settings.root / "spindle.toml").write_text("[serve]\nport = 4\n")
    async with spindle.open(app.settings.root) as other:
        every = await settings(looking(other, {"defaults": "1"}))
        known = {line.path: line for line in every.page.items}
        assert (known["serve.port"].origin, known["serve.port"].is_default) == ("spindle.toml:2", False)
        assert (known["serve.host"].value, known["serve.host"].is_default) == ('"127.0.0.1"', True)


@pytest.mark.parametrize(
    ("path", "value", "shown"),
    [
        (("serve", "auth_token"), "x", '"•••"'),
        (("serve", "tokens", "a", "token_env"), "NAME", '"NAME"'),
        (("sources", "a", "env", "HOME"), "/x", '"•••"'),
        (("sources", "a", "headers", "Authorization"), "Bearer ${T}", '"Bearer ${T}"'),
        (("sources", "a", "headers", "Authorization"), "Bearer t${T}", '"•••"'),
        (("sources", "a", "command"), ["p", "--api-key", "x", "-v"], '["p", "--api-key", "•••", "-v"]'),
        (
            ("sources", "a", "command"),
            ["p", "--token=x", "--token=${T}"],
            '["p", "--token=•••", "--token=${T}"]',
        ),
        (("store",), "postgresql://u:p@db/x?sslmode=on", '"postgresql://•••@db/x?sslmode=•••"'),
        (("auth", "keys"), [{"key": "k"}], '[{"key": "•••"}]'),
        (("serve", "port"), 80, "80"),
        (("sources", "a", "auth", "password"), 1234, '"•••"'),
    ],
)
def test_what_may_be_a_secret_is_masked(path: Sequence[str], value: object, shown: str) -> None:
    assert shown_value(path, value) == shown


async def test_those_who_ask_for_an_examination_share_one(
    app: Spindle, monkeypatch: pytest.MonkeyPatch
) -> None:
    times, may_end = 0, asyncio.Event()

    async def look() -> list[Finding]:
        nonlocal times
        times += 1
        await may_end.wait()
        return [Finding("ok", "state", "good")]

    shared = Examination(look)
    asked = [asyncio.create_task(examine(looking(app, examination=shared))) for _ in range(3)]
    await asyncio.sleep(0)
    asked.pop().cancel()  # a page that was left takes nothing from the others
    may_end.set()
    first, second = await asyncio.gather(*asked)
    assert first is second is shared.last
    assert times == 1
    assert (await health(looking(app, examination=shared))).examined is first
    monkeypatch.setattr("spindle.console.examination.LONGEST", 0.01)
    may_end.clear()
    with pytest.raises(CallTimeoutError):
        await examine(looking(app, examination=shared))


def test_sizes_are_those_of_people() -> None:
    assert [in_bytes(size) for size in (0, 999, 1500, 123_456, 2.5e9)] == [
        "0 bytes", "999 bytes", "1.5 KB", "123 KB", "2.5 GB",
    ]  # fmt: skip
