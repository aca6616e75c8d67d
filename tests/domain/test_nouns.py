from __future__ import annotations

import dataclasses
import hashlib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from spindle.domain.call import Block, Call, CallRecord, Result
from spindle.domain.identity import NO_CREDENTIAL, Credential
from spindle.domain.tool import Hints, Tool, ToolSpec, ToolSummary

PAIRS = st.lists(st.tuples(st.text(max_size=8), st.text(max_size=8)), max_size=2).map(tuple)
CREDENTIALS = st.builds(Credential, PAIRS, PAIRS, PAIRS, PAIRS)


@given(one=CREDENTIALS, other=CREDENTIALS)
def test_credentials_have_one_key_exactly_when_they_are_equal(one: Credential, other: Credential) -> None:
    assert (one.key == other.key) == (one == other)


def test_a_value_in_another_place_is_another_credential() -> None:
    part = (("X-Key", "s3cret"),)
    keys = {Credential(**{place: part}).key for place in ("headers", "query", "cookies", "env")}
    assert len(keys) == 4
    assert NO_CREDENTIAL.key == ""


def test_a_credential_does_not_show_its_values() -> None:
    part = (("X-Key", "s3cret"),)
    shown = repr(Credential(part, part, part, part))
    assert "s3cret" not in shown
    assert "s3cret" not in Credential(part).key
    assert "s3cret" not in repr(Call("a.b", {}, credential=Credential(part)))


def test_the_secrets_of_a_credential_include_the_token_without_its_scheme() -> None:
    credential = Credential(headers=(("Authorization", "Bearer abc123"),), env=(("KEY", "xyz"),))
    assert credential.secrets == {"Bearer abc123", "abc123", "xyz"}


def a_spec(**fields: Any) -> ToolSpec:
    return ToolSpec("read", "Read a file", **fields)


def test_a_fingerprint_does_not_depend_on_the_order_of_keys() -> None:
    one = a_spec(input_schema={"type": "object", "properties": {"a": {}, "b": {}}})
    other = a_spec(input_schema={"properties": {"b": {}, "a": {}}, "type": "object"})
    assert one.fingerprint == other.fingerprint


def test_a_fingerprint_is_the_same_on_every_machine_and_version() -> None:
    text = b'{"description":"Read a file","input_schema":{"properties":{},"type":"object"},"name":"read"}'
    assert a_spec().fingerprint == hashlib.sha256(text).hexdigest()


def test_every_part_that_a_model_relies_on_changes_the_fingerprint() -> None:
    changes: list[dict[str, Any]] = [
        {"remote_name": "other"}, {"description": "other"}, {"input_schema": {"type": "object"}},
        {"output_schema": {}}, {"title": "T"}, {"hints": Hints(read_only=True)}, {"tags": ("x",)},
        {"pure": True}, {"metadata": {"a": 1}},
    ]  # fmt: skip
    prints = {dataclasses.replace(a_spec(), **change).fingerprint for change in changes}
    assert len(prints | {a_spec().fingerprint}) == len(changes) + 1


def test_the_place_of_a_tool_is_no_part_of_its_fingerprint() -> None:
    assert a_spec(place="a.py:1").fingerprint == a_spec(place="b.py:2").fingerprint


@given(
    spec=st.builds(
        ToolSpec,
        st.text(),
        st.text(),
        st.dictionaries(st.text(), st.integers()),
        st.none() | st.dictionaries(st.text(), st.text()),
        st.none() | st.text(),
        st.builds(Hints, *[st.none() | st.booleans()] * 4),
        st.lists(st.text()).map(tuple),
        st.just("here"),
        st.booleans(),
        st.dictionaries(st.text(), st.booleans()),
    )
)
def test_a_definition_is_all_there_is_of_a_tool(spec: ToolSpec) -> None:
    assert ToolSpec.from_definition(spec.definition(), "here") == spec


def test_a_tool_knows_its_name_without_its_source() -> None:
    tool = Tool("files.read", "files", "mcp", a_spec(hints=Hints(read_only=True)), "f")
    assert tool.local_name == "read"
    assert tool.pure
    assert tool.hints.safe_to_repeat
    shown = tool.to_dict()
    assert shown["remote_name"] == "read"
    assert shown["hints"] == {"read_only": True}
    plain = Tool("read", "tools", "python", a_spec(hints=Hints(read_only=False)), "f")
    assert plain.local_name == "read"
    assert not plain.pure


def test_a_headline_is_the_first_sentence() -> None:
    def headline(text: str) -> str:
        return ToolSummary("a", "b", "c", text).headline

    assert headline("Read a file. All of it.") == "Read a file"
    assert headline("\n Read v1.2 files\nand more.") == "Read v1.2 files"
    assert headline("") == ""
    assert ToolSummary("a", "b", "c", "d", ("t",), True).to_dict()["tags"] == ["t"]


def test_a_result_survives_being_written_down() -> None:
    result = Result(
        (Block("text", text=""), Block("link", uri="x", annotations={"a": 1})), {"a": None}, True, True
    )
    data = {**result.to_dict(), "has_structured": True}
    assert Result.from_dict(data) == result
    assert result.value == {"a": None}
    assert data["content"][0] == {"type": "text", "text": ""}


def test_the_text_of_a_result_is_all_its_text() -> None:
    result = Result((Block("text", text="a"), Block("image", data="x"), Block("text", text="b")))
    assert result.text == result.value == "a\nb"
    assert Result(structured=None, has_structured=True).value is None


def test_a_record_shows_all_its_fields() -> None:
    record = CallRecord("k", "a.b", "a", "local", {}, "ok", 1.0, 0.5, 1, None, "p")
    assert record.to_dict() == dataclasses.asdict(record)
