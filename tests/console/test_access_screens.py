"""The screens of access: groups, tokens, and which group sees which tool."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import spindle
from spindle.app import Spindle
from spindle.console.screen import Look
from spindle.console.screens import PLACES
from spindle.console.screens.access import COLUMNS, group, groups, matrix, tokens
from spindle.console.screens.quotas import QuotaForm, quotas
from spindle.console.screens.tools import tool, tools
from spindle.domain.identity import Principal
from spindle.domain.serve import ServeConfig
from spindle.errors import InvalidArgumentsError, NotFoundError
from spindle.serving.access import ServingAccess
from spindle.serving.administration import Administration, Administrator, administered
from spindle.serving.browser_sessions import BrowserSessions

OWNER = Principal("local", frozenset({"guest"}), admin=True)
BY = Administrator("local", "test")
SETTINGS = """
[serve]
default_agent_group = "guest"
excluded_tools = ["hidden"]

[serve.groups.guest]
exposed_tools = ["look"]

[serve.quotas.rules.slow]
calls = "5/minute"

[serve.tokens.robot]
token = "a-token-of-the-settings"
groups = ["guest"]
"""
TOOLS = "from spindle import tool\n" + "".join(
    f'@tool\ndef {name}() -> int:\n    """Do it."""\n    return 1\n' for name in ("look", "place", "hidden")
)


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[Spindle]:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "t.py").write_text(TOOLS)
    (tmp_path / "spindle.toml").write_text(SETTINGS)
    async with spindle.open(tmp_path) as opened:
        await opened.sync()
        yield opened


def looking(app: Spindle, query: dict[str, str] | None = None, *, alone: bool = True) -> Look:
    """A look at the console of one machine, or of a server with these settings."""
    access = ServingAccess.of(ServeConfig(console=True) if alone else app.settings.serve())
    access.sessions = BrowserSessions(app, alone=alone)
    return Look(app, access, OWNER, time.time(), query or {}, {}, is_owner=True)


def administration(app: Spindle) -> Administration:
    return Administration(app.store, app.settings.serve)


async def test_groups_of_the_settings_and_of_administrators_are_listed_with_what_they_see(
    app: Spindle,
) -> None:
    await administration(app).set_group(BY, "few", {"excluded_tools": ["place"]})
    for alone in (True, False):
        found = await groups(looking(app, alone=alone))
        assert [(line.name, line.sees, line.written, line.is_default) for line in found.page.items] == [
            ("few", 1, False, False),
            ("guest", 1, True, True),
        ]
        assert [line.tokens for line in found.page.items] == [0, 1]
        assert found.is_owners == alone
        assert not found.is_open
        # The owner, who is in no group, sees all tools here; of an administrator the own groups hold.
        assert found.tools == 3
    look = looking(app, alone=False)
    assert (await groups(Look(app, look.access, OWNER, look.now))).tools == 1


async def test_the_matrix_works_out_what_it_shows(app: Spindle) -> None:
    for number in range(COLUMNS + 1):
        await administration(app).set_group(BY, f"team-{number}", {"exposed_tools": ["place"]})
    shown = await matrix(looking(app))
    assert (shown.columns.total, len(shown.columns.items), shown.columns.next) == (COLUMNS + 2, COLUMNS, 2)
    rows = {row.tool: list(row.seen) for row in shown.page.items}
    assert rows["look"] == [True, *[False] * (COLUMNS - 1)]
    assert rows["place"] == [False, *[True] * (COLUMNS - 1)]
    assert not any(rows["hidden"])
    second = await matrix(looking(app, {"columns": "2", "q": "PLA"}))
    assert [row.tool for row in second.page.items] == ["place"]
    assert list(second.columns.items) == ["team-7", "team-8"]
    assert (await matrix(looking(app, {"source": "elsewhere"}))).page.total == 0


async def test_an_administrator_sees_the_tools_as_a_group_does_and_others_do_not(app: Spindle) -> None:
    async def names(principal: Principal, **query: str) -> list[str]:
        look = looking(app, query)
        seen = await tools(Look(app, look.access, principal, look.now, query))
        return [item.name for item in seen.page.items]

    assert await names(OWNER) == ["hidden", "look", "place"]
    assert await names(OWNER, group="guest") == ["look"]
    assert await names(OWNER, group="nobody") == ["look"]  # counts as the default group
    assert await names(OWNER, group="guest", q="place") == []
    assert await names(Principal("ann"), group="guest") == ["hidden", "look", "place"]
    one = await tool(Look(app, looking(app).access, OWNER, 0.0, {}, {"name": "look"}))
    assert list(one.groups) == ["guest"]


async def test_tokens_are_listed_without_their_texts_and_the_good_ones_first(app: Spindle) -> None:
    made = administration(app)
    made.now = lambda: time.time() - 60
    _, text = await made.create_token(BY, "old", expires_in=1)
    await made.create_token(BY, "gone", user="ann")
    await made.revoke_token(BY, "gone")
    await made.create_token(BY, "fresh", groups=["guest"], admin=True)
    shown = await tokens(looking(app))
    listed = [(line.name, line.state, line.written) for line in shown.page.items]
    assert listed == [
        ("robot", "good", True), ("fresh", "good", False), ("old", "expired", False),
        ("gone", "revoked", False),
    ]  # fmt: skip
    assert text not in repr(shown)
    assert "a-token-of-the-settings" not in repr(shown)
    assert [line.name for line in (await tokens(looking(app, {"q": "ANN"}))).page.items] == ["gone"]
    assert (await tokens(looking(app, {"state": "expired"}))).page.total == 1


async def test_a_group_is_edited_unless_the_settings_name_it(app: Spindle) -> None:
    await administration(app).set_group(BY, "few", {"exposed_tools": ["look"]})
    form = await group(looking(app, {"name": "few"}))
    assert form.lists is not None
    assert form.lists.exposed_tools == ("look",)
    assert (await group(looking(app))).lists is None
    with pytest.raises(NotFoundError, match="in the settings"):
        await group(looking(app, {"name": "guest"}))
    with pytest.raises(NotFoundError, match="no group"):
        await group(looking(app, {"name": "nothing"}))


async def test_quotas_are_listed_in_words_and_changed_unless_the_settings_name_them(app: Spindle) -> None:
    made = administration(app)
    await made.set_quota(BY, "all", {"calls": "1000/hour", "concurrency": 4, "shared": True})
    await made.set_quota(BY, "big", {"bytes": "10MB/day", "cost": "2.5/s", "groups": ["few"]})
    await made.set_quota(BY, "odd", {"calls": {"calls": 3, "seconds": 90}, "users": ["ann"]})
    shown = await quotas(looking(app))
    assert [(line.name, list(line.limits), line.written, line.may_edit) for line in shown.page.items] == [
        ("all", ["1,000 calls an hour", "4 at once"], False, True),
        ("big", ["10.0 MB a day", "2.5 units a second"], False, True),
        ("odd", ["3 calls in 90 s"], False, False),
        ("slow", ["5 calls a minute"], True, False),
    ]
    assert shown.form == QuotaForm()
    form = (await quotas(looking(app, {"name": "big"}))).form
    assert (form.name, form.groups, form.bytes, form.cost) == ("big", "few", "10000000/day", "2.5/second")
    same = {"bytes": form.bytes, "cost": form.cost, "groups": form.groups.split()}
    assert await made.set_quota(BY, "big", same) == shown.page.items[1].rule
    for name, why in (("slow", "in the settings"), ("odd", "no quota"), ("nothing", "no quota")):
        with pytest.raises(NotFoundError, match=why):
            await quotas(looking(app, {"name": name}))


async def test_what_administrators_change_stands_beside_the_settings_of_the_server(app: Spindle) -> None:
    access = looking(app).access
    assert administered(app, access).groups.keys() == {"guest"}
    assert access.config.groups == {}
    with pytest.raises(InvalidArgumentsError, match=r"is in spindle\.toml"):
        await Administration(app.store, lambda: administered(app, access)).set_group(BY, "guest", {})


def test_the_navigation_hides_only_what_is_for_administrators() -> None:
    from spindle.console.app import _FOR_ADMINS

    assert "access" in _FOR_ADMINS
    assert not {"sources", "tools", "calls", "waiting", "overview"} & _FOR_ADMINS
    assert {place.key for place in PLACES} >= _FOR_ADMINS
