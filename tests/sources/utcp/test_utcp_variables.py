"""Variables: their names, where they are replaced, and that their values are never kept."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from utcp_service import OpenManual, Service, a_manual, a_tool

import spindle
from spindle.errors import ConfigurationError, NotFoundError
from spindle.settings import Settings
from spindle.sources.utcp.variables import Variables, full_name, restored, withheld

KEY = {"auth_type": "api_key", "api_key": "Bearer $KEY", "var_name": "Authorization"}


def http(service: Service, path: str = "/echo/x", **more: Any) -> dict[str, Any]:
    return {"call_template_type": "http", "url": f"{service.url}{path}", **more}


@pytest.mark.parametrize(
    ("manual", "name"),
    [
        ("weather", "weather_KEY"),
        ("my_api", "my__api_KEY"),
        ("my-api", "my__api_KEY"),
        ("a__b", "a____b_KEY"),
    ],
)
def test_names_are_kept_apart_as_utcp_does(manual: str, name: str) -> None:
    assert full_name(manual, "KEY") == name


def test_the_settings_come_before_the_environment() -> None:
    environ = {"my__api_A": "environment", "my__api_B": "environment", "C": "not named after the manual"}
    variables = Variables("my_api", {"my__api_A": "named", "A": "plain", "D": "plain"}, environ)
    found = [variables.find(name, ("my_api",)) for name in "ABCD"]
    assert found == ["named", "environment", None, "plain"]


@given(st.text(), st.dictionaries(st.from_regex(r"[A-Za-z_]\w{0,5}", fullmatch=True), st.text(), max_size=3))
def test_a_text_without_variables_of_ours_stays(text: str, given_variables: dict[str, str]) -> None:
    variables = Variables("s", given_variables, {})
    if "${" not in text and not any(f"${name}" in text for name in given_variables):
        assert variables.fill(text, ("s",), "there", strict=False) == text


async def test_a_dollar_sign_in_a_url_may_be_just_that(open_manual: OpenManual, service: Service) -> None:
    template = http(service, "/echo/x?$filter=a&$top=$TOP")
    async with open_manual(
        a_manual(a_tool("t", template)), auth_hosts=[service.url], variables={"TOP": "5"}
    ) as opened:
        sent = (await opened.call("t")).structured
    assert sent["query"] == [["$filter", "a"], ["$top", "5"]]


async def test_a_missing_variable_leaves_out_its_tool_alone(
    open_manual: OpenManual, service: Service
) -> None:
    manual = a_manual(
        a_tool("auth", http(service, auth=KEY)),
        a_tool("url", http(service, "/${WHERE}")),
        a_tool("fine", http(service)),
    )
    async with open_manual(manual, name="my_shop") as opened:
        assert list(opened.tools) == ["fine"]
    assert opened.notes == [
        "my_shop.auth was left out: the variable my__shop_KEY is not set, but auth.api_key uses it; "
        "set it (export my__shop_KEY=…), or KEY in sources.my_shop.variables",
        "my_shop.url was left out: the variable my__shop_WHERE is not set, but url uses it; "
        "set it (export my__shop_WHERE=…), or WHERE in sources.my_shop.variables",
    ]


async def test_a_variable_that_has_gone_since_is_told_by_the_call(
    open_manual: OpenManual, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("shop_KEY", "k")
    manual = a_manual(a_tool("t", http(service, auth=KEY)))
    async with open_manual(manual, auth_hosts=[service.url]) as opened:
        assert (await opened.call("t")).structured["headers"] == {"authorization": "Bearer k"}
        monkeypatch.delenv("shop_KEY")
        with pytest.raises(
            ConfigurationError, match=r"shop_KEY is not set, but auth\.api_key of shop\.t uses it"
        ):
            await opened.call("t")
        monkeypatch.setenv("shop_KEY", "")
        with pytest.raises(
            ConfigurationError, match=r"shop_KEY is empty, but auth\.api_key of shop\.t uses it"
        ):
            await opened.call("t")


async def test_a_manual_from_a_url_cannot_name_itself_after_somebody_elses_variables(
    open_manual: OpenManual, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_KEY", "not yours")
    service.tools = [a_tool("t", {**http(service), "name": "AWS", "headers": {"X": "$KEY"}})]
    async with open_manual(at=f"{service.url}/utcp") as opened:
        assert not opened.tools
    assert "the variable shop_KEY is not set" in opened.notes[0]


def test_secrets_written_out_are_told_from_variables() -> None:
    template = {
        "auth": {"auth_type": "api_key", "api_key": "abc", "var_name": "X-Token"},
        "headers": {"Authorization": "Bearer $T", "X-Api-Key": "def", "Accept": "text/plain"},
        "env_vars": {"DB_PASSWORD": "pre${P}"},
        "url": "https://x/?a=1&appid=ghi",
    }
    stored, secrets = withheld(template)
    assert secrets == {
        "auth.api_key": "abc", "headers.X-Api-Key": "def", "env_vars.DB_PASSWORD": "pre${P}",
        "url": "https://x/?a=1&appid=ghi",
    }  # fmt: skip
    for url in ("https://x/?keyword=a", "https://x/?token=$T", "https://x/?key={key}", "https://x/"):
        assert withheld({"url": url}) == ({"url": url}, {})
    assert "abc" not in repr(stored)
    assert restored(stored, secrets) == template


async def test_neither_variables_nor_a_manuals_own_secrets_reach_the_store(
    service: Service, tmp_path: Path
) -> None:
    service.tools = [
        a_tool("variable", http(service, auth=KEY)),
        a_tool("literal", http(service, auth={**KEY, "api_key": "literal-secret"})),
        a_tool("url", http(service, "/echo/u?token=url-secret")),
    ]
    source = {
        "kind": "utcp", "document": f"{service.url}/utcp?key=query-secret",
        "variables": {"KEY": "${SECRET_OF_TEST}"},
    }  # fmt: skip
    settings = Settings(tmp_path, {"sources": {"shop": source}})
    environ = {"SECRET_OF_TEST": "variable-secret"}
    async with spindle.open(settings=settings, environ=environ) as app:
        await app.sync()
        headers = [(await app.call(f"shop.{name}")).structured["headers"] for name in ("variable", "literal")]
        query = (await app.call("shop.url")).structured["query"]
    # Another process has the store alone, and reads the manual again for what the store does not hold.
    async with spindle.open(settings=settings, environ=environ) as app:
        again = (await app.call("shop.literal")).structured["headers"]
        service.tools = []
    async with spindle.open(settings=settings, environ=environ) as app:
        with pytest.raises(NotFoundError, match="no longer what it was in its manual"):
            await app.call("shop.literal")
    assert headers == [{"authorization": "Bearer variable-secret"}, {"authorization": "literal-secret"}]
    assert again == headers[1]
    assert query == [["token", "url-secret"]]
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"shop.literal" in kept
    assert b"-secret" not in kept
