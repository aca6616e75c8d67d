"""What exists for whom, and how often one client may ask."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import spindle
from spindle import CallOptions, Principal
from spindle.calls.rates import RateLimiter
from spindle.domain.serve import ServeConfig
from spindle.domain.source import RateLimit
from spindle.errors import ConfigurationError, NotFoundError
from spindle.listening.addressing import network
from spindle.serving.access import ServingAccess
from spindle.serving.exposure import Exposed, doubts

TOOLS = ["fs.read", "fs.write", "git.log", "git.push", "hello"]


def seen(settings: dict[str, Any], *groups: str) -> list[str]:
    exposed = Exposed(ServeConfig.model_validate(settings))
    principal = Principal("ann", frozenset(groups))
    found = [name for name in TOOLS if exposed.shows(principal, name)]
    assert exposed.seen_of(principal, TOOLS) == found  # a long list is judged in one go, with the same end
    if len(groups) < 2:
        assert exposed.seen_by(*groups or ("nobody",), TOOLS) == found
    return found


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, TOOLS),
        ({"exposed_tools": ["fs.read", "hello"]}, ["fs.read", "hello"]),
        ({"exposed_tools": "fs.*"}, ["fs.read", "fs.write"]),
        ({"exposed_tools": ["*.read", "h?llo", "git.[lm]og"]}, ["fs.read", "git.log", "hello"]),
        ({"exposed_tools": ["fs"]}, []),
        ({"exposed_tools": ["FS.*"]}, []),
        ({"exposed_tools": []}, []),
        ({"excluded_tools": ["fs.*", "git.push"]}, ["git.log", "hello"]),
        ({"exposed_tools": ["fs.*"], "excluded_tools": ["fs.write"]}, ["fs.read"]),
        ({"exposed_tools": ["fs.write"], "excluded_tools": ["fs.write"]}, []),
        ({"excluded_tools": ["*"]}, []),
        ({"excluded_tools": ["no.such"]}, TOOLS),
    ],
)
def test_what_is_exposed_without_what_is_excluded_exists(
    settings: dict[str, Any], expected: list[str]
) -> None:
    assert seen(settings) == expected


GROUPS = {
    "excluded_tools": ["git.push"],
    "groups": {
        "guest": {"exposed_tools": ["hello"]},
        "files": {"exposed_tools": ["fs.*"], "excluded_tools": ["fs.write"]},
        "git": {"exposed_tools": ["git.*"]},
        "admin": {},
    },
}


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ((), ["hello"]),
        (("guest",), ["hello"]),
        (("files",), ["fs.read"]),
        (("git",), ["git.log"]),
        (("files", "git"), ["fs.read", "git.log"]),
        (("admin",), ["fs.read", "fs.write", "git.log", "hello"]),
        (("nobody-wrote-of-it",), ["hello"]),
        (("nobody-wrote-of-it", "git"), ["git.log"]),
    ],
)
def test_a_group_sees_its_own_part_of_what_is_exposed(groups: tuple[str, ...], expected: list[str]) -> None:
    assert seen(GROUPS, *groups) == expected


def test_the_default_group_is_chosen_in_the_settings() -> None:
    assert seen({**GROUPS, "default_agent_group": "git"}) == ["git.log"]
    assert seen({**GROUPS, "default_agent_group": "open"}) == ["fs.read", "fs.write", "git.log", "hello"]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, True),
        ({"exposed_tools": ["fs.*"]}, True),
        ({"exposed_tools": ["*"]}, True),
        ({"exposed_tools": ["fs.read"]}, False),
        ({"exposed_tools": ["git.*"]}, False),
        ({"excluded_tools": ["fs.*"]}, False),
        ({"excluded_tools": ["fs.write"]}, True),
    ],
)
def test_what_is_no_tool_is_offered_only_where_all_tools_may_be(
    settings: dict[str, Any], expected: bool
) -> None:
    access = ServingAccess.of(ServeConfig.model_validate(settings))
    assert access.offers(Principal("ann"), "fs") is expected


def test_names_that_are_not_there_are_doubted_with_a_suggestion() -> None:
    config = ServeConfig.model_validate(
        {
            "exposed_tools": ["fs.raed", "no.*", "hello", "later.x"],
            "excluded_tools": ["git"],
            "groups": {"ops": {"excluded_tools": ["zzz"]}},
            "tokens": {"ci": {"token": "x", "groups": ["opps"]}, "me": {"token": "y", "groups": ["ops"]}},
        }
    )
    assert doubts(config, TOOLS, ["later"]) == [
        "serve.exposed_tools names 'fs.raed', which is not a tool; did you mean 'fs.read'?",
        "serve.excluded_tools names 'git', which is not a tool; for all tools of that source write 'git.*'",
        "serve.groups.ops.excluded_tools names 'zzz', which is not a tool",
        "serve.tokens.ci.groups names 'opps', which is not in serve.groups; did you mean 'ops'?",
    ]


# --- hidden tools and the one call path


def test_a_hidden_tool_cannot_be_told_from_one_that_is_not_there(tmp_path: Path) -> None:
    def secret_one() -> int:
        """Hidden."""
        return 1

    def public_one() -> int:
        """Shown."""
        return 2

    async def story() -> None:
        rules = ServingAccess.of(ServeConfig.model_validate({"excluded_tools": ["secret_*"]}))
        opened = spindle.open(tmp_path, tools=[secret_one, public_one], visible=rules.shows)
        async with opened as app:
            assert (await app.call("public_one")).structured == 2
            answers = []
            for name in ("secret_one", "secret_two"):
                with pytest.raises(NotFoundError) as caught:
                    await app.call(name, {}, CallOptions(principal=Principal("ann")))
                answers.append(str(caught.value.to_dict()).replace(name, "NAME"))
            assert answers[0] == answers[1]
            assert "secret" not in answers[0]
            with pytest.raises(NotFoundError) as caught:
                await app.call("public_onn")
            assert caught.value.hint == "did you mean 'public_one'?"
            assert [record.tool for record in await app.history()] == ["public_one"]

    asyncio.run(story())


def test_a_short_name_leads_only_to_what_is_seen(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "t.py").write_text(
            f"from spindle import tool\n\n@tool\ndef where() -> str:\n    return '{folder}'\n"
        )
    (tmp_path / "spindle.toml").write_text(
        "".join(f'[sources.{name}]\nkind = "python"\npath = "{name}"\n' for name in ("one", "two"))
    )

    async def story() -> None:
        def sees(principal: Principal, name: str) -> bool:
            return not name.startswith("one.") or principal.id == "ann"

        async with spindle.open(tmp_path, visible=sees) as app:
            bob = CallOptions(principal=Principal("bob"))
            assert (await app.call("where", {}, bob)).text == "two"
            with pytest.raises(NotFoundError, match="several tools"):
                await app.call("where", {}, CallOptions(principal=Principal("ann")))
            assert (await app.call("where", {}, bob)).text == "two"
            with pytest.raises(NotFoundError, match=r"there is no tool 'one\.where'"):
                await app.call("one.where", {}, bob)

    asyncio.run(story())


# --- replacing the rules


def test_rules_are_replaced_as_a_whole_or_not_at_all() -> None:
    made = ServeConfig.model_validate
    access = ServingAccess.of(made({"host": "0.0.0.0", "auth_token": "x" * 20}), {})
    assert access.adopt(made({"host": "0.0.0.0", "auth_token": "x" * 20, "excluded_tools": ["a"]}))
    for wrong in ({"host": "0.0.0.0"}, {"auth_token_env": "NOT_SET"}, {}):
        with pytest.raises(ConfigurationError):
            access.adopt(made(wrong))
        assert access.wants_token
        assert not access.shows(Principal("ann"), "a")


# --- how often


def test_a_client_gets_its_calls_back_evenly_and_others_keep_theirs() -> None:
    now = [50.0]
    rates = RateLimiter(RateLimit(calls=3, seconds=30), lambda: now[0])
    assert [rates.take("ann") for _ in range(4)] == [None, None, None, pytest.approx(10)]
    assert rates.take("bob") is None
    now[0] += 10
    assert (rates.take("ann"), rates.take("ann")) == (None, pytest.approx(10))
    now[0] += 1000
    assert [rates.take("ann") for _ in range(4)][:3] == [None] * 3


def test_few_are_remembered_and_those_who_ask_most_longest() -> None:
    now = [0.0]
    rates = RateLimiter(RateLimit(calls=5, seconds=60), lambda: now[0], max_keys=100)
    for _ in range(5):
        rates.take("greedy")
    for number in range(10_000):
        now[0] += 0.0001
        rates.take(f"address {number}")
    assert len(rates) <= 100
    assert rates.take("greedy") is not None


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8::1:2:3", "2001:db8::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("unix", "unix"),
    ],
)
def test_a_network_of_version_6_is_one_client(address: str, expected: str) -> None:
    assert network(address) == expected
