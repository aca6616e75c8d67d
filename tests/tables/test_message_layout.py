"""Conversations in the layout of KNIME's message value. The layout is KNIME's; the writer here is ours, and
shares nothing with the code that is tested."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from spindle.errors import TableError
from spindle.tables import ToolRow, message_values, prompt_async
from spindle.tables.messages import MOST, message_table, read_messages
from spindle.testing import ModelServer, ToolCall, Turn


def png(colour: int) -> bytes:
    """A picture of one dot."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    dot = zlib.compress(bytes([0, colour]))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", dot) + chunk(b"IEND", b"")


RED, BLUE = png(10), png(20)


def cell(kind: str, *parts: tuple[str, bytes], calls: Any = None, of: Any = None, name: Any = None) -> Any:
    return {
        "0": kind,
        "1": [{"0": what, "1": data} for what, data in parts],
        "2": None if calls is None else [dict(zip("012", call, strict=True)) for call in calls],
        "3": of,
        "4": name,
    }


def text(words: str) -> tuple[str, bytes]:
    return "text", words.encode()


TALK = [
    cell("USER", text("What is on it?"), ("png", RED)),
    cell("AI", text("I look."), calls=[("c1", "look", '{"closer": true}'), ("c2", "smell", "{}")]),
    cell("TOOL", text("A dot."), ("png", BLUE), of="c1", name="look"),
    cell("TOOL", text("Nothing."), of="c2", name="smell"),
    cell("AI", text("A dot.")),
]


def column_of(cells: list[Any], *, older: bool = False) -> pa.Table:
    lists, binary = (pa.list_, pa.binary()) if older else (pa.large_list, pa.large_binary())
    string = pa.string()
    fields = [
        ("0", string),
        ("1", lists(pa.struct([("0", string), ("1", binary)]))),
        ("2", lists(pa.struct([("0", string), ("1", string), ("2", string)]))),
        ("3", string),
        ("4", string),
    ]
    kept = fields[:4] if older else fields
    names = [name for name, _ in kept]
    shown = [None if one is None else {name: one[name] for name in names} for one in cells]
    return pa.table({"n": pa.array([0] * len(cells)), "talk": pa.array(shown, pa.struct(kept))})


def asked(*before: Any) -> pa.Table:
    return column_of([*before, cell("USER", text("Sure?"))])


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with ModelServer() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        yield server


def test_what_was_said_goes_there_and_back() -> None:
    rows = read_messages(asked(*TALK))
    assert [(row.role, row.content, row.tool_name, row.tool_call_id) for row in rows] == [
        ("user", "What is on it?", None, None),
        ("assistant", "I look.", None, None),
        ("assistant", None, "look", "c1"),
        ("assistant", None, "smell", "c2"),
        ("tool", "A dot.", "look", "c1"),
        ("tool", "Nothing.", "smell", "c2"),
        ("assistant", "A dot.", None, None),
        ("user", "Sure?", None, None),
    ]
    assert [row.pictures for row in rows] == [(RED,), (), (), (), (BLUE,), (), (), ()]
    assert rows[2].arguments == '{"closer": true}'
    again = message_values(message_table(rows))
    assert again.to_pylist() == [*TALK, cell("USER", text("Sure?"))]
    assert again.type == asked()["talk"].type


def test_an_older_layout_is_read() -> None:
    url = b"data:image/png;base64," + base64.b64encode(RED)
    talk = [
        cell("USER", ("string", b"See?"), ("image", RED), ("png", url)),
        None,
        cell("AI", text("")),
        cell("AI", calls=[("c1", "look", "{}")], of="id-of-the-message"),
        cell("TOOL", text("Yes."), of="c1"),
        cell("AI", text("I see.")),
        cell("USER", text("Go on.")),
    ]
    rows = read_messages(column_of(talk, older=True))
    assert rows[0].pictures == (RED, RED)
    assert (rows[2].tool_name, rows[2].content) == ("look", "Yes.")  # named by its call
    assert [row.role for row in rows] == ["user", "assistant", "tool", "assistant", "user"]


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (cell("SYSTEM", text("x")), "of the kind 'SYSTEM', which is not known"),
        (cell("USER", ("mp3", b"x")), "a part of the kind 'mp3', which is not known"),
        (cell("USER", ("png", b"GIF89a")), "that is no PNG picture"),
        (cell("USER", ("png", b"data:image/png;base64,%%")), "that is no PNG picture"),
        (cell("AI", calls=[("", "look", "{}")]), "a call that has no id"),
        (cell("AI", calls=[("c1", None, "{}")]), "a call that has no name"),
        (cell("AI", calls=[("c1", "look", "{")]), "the arguments of the call 'c1' are no JSON object"),
        (cell("AI", calls=[("c1", "look", "[1]")]), "the arguments of the call 'c1' are no JSON object"),
        (cell("AI", calls=[("c1", "look", "{}")]), "there is no result of it"),
        (cell("TOOL", text("x"), of="c9"), "there is no such call"),
        (cell("TOOL", text("x")), "has no tool_call_id"),
    ],
)
def test_a_message_that_makes_no_sense_is_named(bad: Any, told: str) -> None:
    with pytest.raises(TableError, match=told) as caught:
        read_messages(asked(cell("USER", text("Hi.")), bad))
    assert "message 1" in caught.value.message


def test_other_structs_are_no_messages() -> None:
    with pytest.raises(TableError, match="no column 'role'"):
        read_messages(pa.table({"talk": pa.array([{"0": "USER", "1": "Hi."}])}))


def test_pictures_are_bounded_and_belong_to_those_who_can_show_them() -> None:
    big = RED + bytes(MOST // 2)
    with pytest.raises(TableError, match="bytes together, and have more"):
        read_messages(asked(*[cell("USER", text("See?"), ("png", big))] * 2))
    with pytest.raises(TableError, match="only the user's and results have pictures"):
        read_messages([{"role": "assistant", "content": "x", "pictures": [RED]}, "Go."])
    with pytest.raises(TableError, match="the bytes of PNG files"):
        read_messages([{"role": "user", "content": "x", "pictures": ["RED"]}])
    plain = message_table(read_messages(["Hi."]))
    assert "pictures" not in plain.column_names


def test_messages_of_the_system_are_left_out() -> None:
    rows = read_messages([{"role": "system", "content": "Be kind."}, "Hi."])
    assert message_values(message_table(rows)).to_pylist() == [cell("USER", text("Hi."))]


async def test_a_model_goes_on_from_such_messages_and_sees_their_pictures(model: ModelServer) -> None:
    model.feed(Turn(calls=[ToolCall("gone", {})]), "Quite.")
    row = ToolRow.remote("gone", server_uri="http://127.0.0.1:9/mcp")
    given = column_of([*TALK, cell("USER", text("Sure?"), ("png", BLUE))])
    said = await prompt_async([row], given, model="openai-chat:any", note=lambda _: None)
    sent = json.dumps(model.requests[0].body)
    assert sent.count(base64.b64encode(RED).decode()) == 1
    assert sent.count(base64.b64encode(BLUE).decode()) == 2
    assert "A dot." in sent
    made = message_values(said).to_pylist()
    assert made[:6] == [*TALK, cell("USER", text("Sure?"), ("png", BLUE))]
    (call,) = made[6]["2"]
    assert (call["1"], json.loads(call["2"])) == ("gone", {})
    assert (made[7]["0"], made[7]["3"], made[7]["4"]) == ("TOOL", call["0"], "gone")
    assert made[8] == cell("AI", text("Quite."))
