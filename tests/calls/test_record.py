"""What is written down of a call: everything but the secrets."""

from __future__ import annotations

import json
import os
import sqlite3
import traceback
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_source import MadeConfig, OpenDesk, failing, spec, text

import spindle
from spindle import CallOptions, CallRecord, Credential, Principal, Tool, bearer
from spindle.auth.details import DetailSealer
from spindle.calls.record import MASK, MAX_TEXT, clean, clean_json, configured_secrets, masked, secrets_in
from spindle.domain.call import Block, Call, Result
from spindle.domain.source import ApiKeyAuth, BasicAuth, BearerAuth
from spindle.errors import ClientError, InvalidArgumentsError, ServerError, StoreError, ToolError

SECRET = "hunter2-and-more"
MOD = """
from spindle import tool


class Vault:
    def __init__(self, config):
        self.password = config["password"]

    @tool
    def unlock(self) -> str:
        \"\"\"Unlock the vault.\"\"\"
        raise RuntimeError(f"cannot log in with {self.password}")

    def get_tools(self):
        return [self.unlock]
"""


@pytest.mark.parametrize(
    "name",
    [
        "password", "Passwd", "passphrase", "pass", "user_password", "secret", "client_secret", "token",
        "accessToken", "github-token", "api_key", "apiKey", "X-API-Key", "Authorization", "auth",
        "credentials", "private_key", "aws_access_key_id", "cookie", "Set-Cookie", "passcode",
    ],
)  # fmt: skip
def test_a_value_is_masked_for_its_name(name: str) -> None:
    for value in (SECRET, 123456, ["a", SECRET], {"user": "ann", "inner": SECRET}):
        assert masked({"a": [{name: value}]}, {}, ()) == {"a": [{name: MASK}]}
    assert masked({name: None, "x": {name: True}}, {}, ()) == {name: None, "x": {name: True}}


@pytest.mark.parametrize(
    "name", ["path", "query", "tokens", "max_tokens", "compass", "author", "key", "passage"]
)
def test_an_innocent_name_is_left_alone(name: str) -> None:
    assert masked({name: "x"}, {}, ()) == {name: "x"}


HIDDEN = {"type": "string", "writeOnly": True}


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        ({"properties": {"pin": {"type": "string", "format": "password"}}}, {"pin": SECRET}),
        ({"properties": {"pin": HIDDEN}}, {"pin": SECRET}),
        ({"properties": {"pin": {"anyOf": [HIDDEN, {"type": "null"}]}}}, {"pin": SECRET}),
        ({"properties": {"pin": {"oneOf": [{}, {"$ref": "#/$defs/p"}]}}, "$defs": {"p": HIDDEN}}, {"pin": SECRET}),  # noqa: E501
        ({"allOf": [{"properties": {"pin": HIDDEN}}]}, {"pin": SECRET}),
        ({"properties": {"pin": {"$ref": "#/definitions/p"}}, "definitions": {"p": HIDDEN}}, {"pin": SECRET}),
        ({"properties": {"pins": {"type": "array", "items": HIDDEN}}}, {"pins": [SECRET]}),
        ({"properties": {"pins": {"prefixItems": [{}, HIDDEN]}}}, {"pins": [SECRET, SECRET]}),
        ({"additionalProperties": HIDDEN}, {"anything": SECRET}),
        ({"properties": {"who": {"properties": {"pin": HIDDEN}}}}, {"who": {"pin": SECRET}}),
        ({"properties": {"who": {"writeOnly": True}}}, {"who": {"name": SECRET}}),
    ],
)  # fmt: skip
def test_a_value_is_masked_for_its_schema(schema: dict[str, Any], arguments: dict[str, Any]) -> None:
    assert SECRET not in json.dumps(masked(arguments, schema, ()))
    assert secrets_in(arguments, schema) == {SECRET}


def test_only_what_the_schema_marks_is_masked() -> None:
    schema = {"properties": {"pin": HIDDEN, "list": {"items": {"properties": {"pin": HIDDEN}}}}}
    found = masked({"pin": "1234", "name": "ann", "list": [{"name": "bob"}, 1]}, schema, ())
    assert found == {"pin": MASK, "name": "ann", "list": [{"name": "bob"}, 1]}


def test_a_schema_that_refers_to_itself_ends() -> None:
    schema = {"$ref": "#/$defs/n", "$defs": {"n": {"anyOf": [{"$ref": "#/$defs/n"}, HIDDEN]}}}
    assert masked({"a": {"a": 1}}, schema, ()) is not None


def test_a_secret_that_begins_like_another_does_not_uncover_its_end() -> None:
    assert clean("abcdefgh abcd", {"abcd", "abcdefgh"}) == f"{MASK} {MASK}"


def test_very_short_values_are_no_secrets() -> None:
    assert clean("a1b", {"", "1", "b"}) == "a1b"


@given(st.recursive(st.text() | st.just(SECRET) | st.integers() | st.none(), lambda inner: st.lists(inner)))
def test_no_secret_is_left_at_any_depth(value: Any) -> None:
    assert SECRET not in json.dumps(clean_json({"x": value}, {SECRET}), ensure_ascii=False)
    assert SECRET not in json.dumps(masked({"x": value}, {}, {SECRET}), ensure_ascii=False)


def test_settings_written_as_they_are_hold_secrets_too() -> None:
    def secrets(**settings: Any) -> set[str]:
        return configured_secrets(MadeConfig(**settings))

    assert secrets(env={"API_KEY": "k-12345", "LANG": "en_GB"}) == {"k-12345"}
    assert secrets(headers={"Authorization": "Bearer abcdef"}) == {"Bearer abcdef"}
    assert secrets(auth=BearerAuth(type="bearer", token="t-12345")) == {"t-12345"}
    assert secrets(auth=BasicAuth(type="basic", username="ann", password="p-12345")) == {"p-12345"}
    assert secrets(auth=ApiKeyAuth(type="api_key", name="X-Key", value="v-12345")) == {"v-12345"}
    assert secrets() == set()


# --- in the path of a call


def stored(folder: Path) -> str:
    """All that the state file holds of calls, as text, with what is sealed opened."""
    seal = DetailSealer(lambda: [os.environ["SPINDLE_KEY"]])
    with sqlite3.connect(folder / ".spindle" / "state.db") as connection:
        connection.row_factory = sqlite3.Row
        rows = [dict(row) for row in connection.execute("SELECT * FROM calls")]
    connection.close()
    for row in rows:
        for name in ("arguments", "error", "result"):
            row[name] = row[name] and seal.open(row[name], f"call:{row['key']}:{name}").decode()
    return repr(rows)


async def test_the_sources_secrets_are_masked_wherever_they_turn_up(desk: OpenDesk, tmp_path: Path) -> None:
    credential = "credential-of-ann"
    error = ClientError(
        f"bad key {SECRET}", hint=f"not {credential}", details={"headers": [f"Bearer {credential}", SECRET]}
    )
    error.__cause__ = ValueError(f"in the cause: {SECRET}")

    async def provider(_source: str, _principal: Principal) -> Credential | None:
        return bearer(credential)

    options = {"credentials": provider, "environ": {**os.environ, "KEY": SECRET}}
    async with desk(spec(), answer=failing(error), env={"K": "x-${KEY}"}, options=options) as d:
        with pytest.raises(ClientError) as caught:
            await d.call("made.do", text=f"my key is {SECRET}", list=[{"deep": credential}])
        record = await d.last()
        assert d.source.calls[0].arguments["text"] == f"my key is {SECRET}"
    assert record.arguments == {"text": f"my key is {MASK}", "list": [{"deep": MASK}]}
    assert record.error is not None
    assert record.error["message"] == str(caught.value) == f"bad key {MASK}"
    assert caught.value.hint == f"not {MASK}"
    everything = stored(tmp_path) + "".join(traceback.format_exception(caught.value))
    assert SECRET not in everything.replace("SECRET", "")
    assert credential not in json.dumps(caught.value.to_dict())


async def test_a_harmless_cause_is_kept_for_who_looks_for_it(desk: OpenDesk) -> None:
    error = ServerError("broken")
    error.__cause__ = ValueError("harmless")
    async with desk(spec(), answer=failing(error), env={"API_KEY": SECRET}) as d:
        with pytest.raises(ServerError) as caught:
            await d.call("made.do")
    assert isinstance(caught.value.__cause__, ValueError)


async def test_an_argument_that_is_secret_is_masked_in_the_errors_about_it(
    desk: OpenDesk, tmp_path: Path
) -> None:
    schema = {"type": "object", "properties": {"password": {"type": "integer"}}}
    async with desk(spec("do", schema)) as d:
        with pytest.raises(InvalidArgumentsError) as caught:
            await d.call("made.do", password=SECRET)
    assert str(caught.value).endswith(f'password: "{MASK}" is not of type "integer"')
    assert SECRET not in json.dumps(caught.value.to_dict())
    assert SECRET not in stored(tmp_path)


async def test_an_argument_that_is_secret_is_masked_in_what_the_tool_says_of_it(
    desk: OpenDesk, tmp_path: Path
) -> None:
    async def answer(_tool: Tool, _call: Call) -> Result:
        return text("x" * 1990 + f" wrong password: {SECRET}", is_error=True)

    async with desk(spec(), answer=answer) as d:
        result = await d.call("made.do", password=SECRET)
        record = await d.last()
    assert SECRET in result.text
    assert record.error is not None
    assert record.error["message"].endswith(f"wrong password: {MASK}")
    assert "hunter2" not in stored(tmp_path)


async def test_a_secret_of_the_source_is_masked_in_what_its_tool_says_of_a_failure(desk: OpenDesk) -> None:
    async def answer(_tool: Tool, _call: Call) -> Result:
        said = f"refused with {SECRET}"
        return Result((Block("text", text=said),), {"why": [said]}, is_error=True, has_structured=True)

    async with desk(spec(), answer=answer, env={"API_KEY": SECRET}) as d:
        result = await d.call("made.do")
        with pytest.raises(ToolError) as caught:
            await d.call("made.do", {}, CallOptions(raise_tool_errors=True))
    assert (result.text, result.structured) == (f"refused with {MASK}", {"why": [f"refused with {MASK}"]})
    assert SECRET not in json.dumps(caught.value.to_dict()) + str(caught.value)


async def test_a_failing_function_does_not_tell_the_secrets_of_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mods").mkdir()
    (tmp_path / "mods" / "vault.py").write_text(MOD)
    (tmp_path / "spindle.toml").write_text('[mods.vault]\npassword = "${VAULT}"\n')
    monkeypatch.setenv("VAULT", SECRET)
    async with spindle.open(tmp_path) as app:
        result = await app.call("unlock")
    assert result.is_error
    assert result.text == f"RuntimeError: cannot log in with {MASK}"


async def test_very_long_texts_are_cut_and_say_so(desk: OpenDesk) -> None:
    async with desk(spec(), answer=failing(ServerError("y" * 100_000))) as d:
        with pytest.raises(ServerError) as caught:
            await d.call("made.do", text="x" * 1_000_000)
        record = await d.last()
        assert d.source.calls[0].arguments == {"text": "x" * 1_000_000}
    assert record.arguments["text"] == "x" * MAX_TEXT + "… (1000000 characters)"
    assert record.error is not None
    assert record.error["message"] == "y" * MAX_TEXT + "… (100000 characters)"
    assert len(str(caught.value)) == 100_000


@pytest.mark.parametrize("failure", [StoreError("the disk is full"), TypeError("not JSON")])
async def test_a_record_that_cannot_be_written_loses_no_result(
    desk: OpenDesk, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    async def broken(_record: CallRecord, *, together: bool = False) -> None:
        raise failure

    async with desk(spec()) as d:
        monkeypatch.setattr(d.app.store, "save_call", broken)
        assert (await d.call("made.do")).text == "done"
        d.source.answer = failing(ClientError("no"))
        with pytest.raises(ClientError):
            await d.call("made.do")
    assert d.notes == [f"the call of made.do could not be recorded: {failure}"] * 2


async def test_a_call_made_during_a_call_names_it_as_its_parent(desk: OpenDesk) -> None:
    async def answer(_tool: Tool, call: Call) -> Result:
        if call.arguments:
            await d.call("made.do")
        return text("done")

    async with desk(spec(), answer=answer) as d:
        await d.call("made.do", outer=True)
        await d.call("made.do")
        inner, outer, after = await d.records()
        assert [call.parent for call in d.source.calls] == [None, outer.key, None]
    assert (inner.parent, outer.parent, after.parent) == (outer.key, None, None)


async def test_the_principal_of_a_call_is_on_its_record(desk: OpenDesk) -> None:
    async with desk(spec()) as d:
        await d.call("made.do", {}, CallOptions(Principal("ann", frozenset({"staff"}))))
        assert (await d.last()).principal == "ann"


@pytest.mark.parametrize("depth", [150, 240, 5000])
def test_what_is_nested_too_deeply_is_hidden(depth: int) -> None:
    value: Any = {"password": "hunter22", "other": "plain-text"}
    for _ in range(depth):
        value = [value]
    kept = repr(masked({"x": value}, {}, ()))
    assert "hunter22" not in kept
    assert ("plain-text" in kept) == (depth < 200)
    assert "hunter22" in secrets_in({"x": value}, {})
