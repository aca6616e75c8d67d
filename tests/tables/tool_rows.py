"""Rows of every kind, for property tests, and a few to look at."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from spindle.domain.tool import Hints
from spindle.tables.tool_row import MAX_PORT, Column, Port, ToolKind, ToolRow

# Arrow's texts are UTF-8, which has no halves of surrogate pairs; JSON writes them all the same.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NAMES = TEXT.filter(bool)
ANY_TEXT = st.text(max_size=10)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(ANY_TEXT, JSON, max_size=4)
COLUMNS = st.builds(Column, TEXT, TEXT)
PORTS = st.builds(Port, TEXT, TEXT, NAMES, st.lists(COLUMNS, max_size=3).map(tuple), st.none() | TEXT)
HINTS = st.builds(Hints, *[st.none() | st.booleans()] * 4)

ANY_ROW = st.builds(
    ToolRow,
    kind=st.sampled_from(ToolKind),
    name=NAMES,
    description=TEXT,
    parameters=OBJECTS.filter(bool),
    input=st.none() | OBJECTS,
    output=st.none() | OBJECTS,
    message_output_port=st.none() | st.integers(0, MAX_PORT),
    file_store_keys=st.lists(TEXT, max_size=3).map(tuple),
    server_uri=st.none() | TEXT,
)
"""Whatever the nine fields can hold."""

WORKFLOWS = st.builds(
    ToolRow.workflow,
    NAMES,
    TEXT,
    OBJECTS.filter(bool),
    input_ports=st.lists(PORTS, max_size=2),
    output_ports=st.lists(PORTS, max_size=2),
    message_output_port=st.none() | st.integers(0, MAX_PORT),
    file_store_keys=st.lists(TEXT, max_size=2),
)
REMOTES = st.builds(
    ToolRow.remote,
    NAMES,
    TEXT,
    OBJECTS.filter(bool),
    kind=st.sampled_from(ToolKind),
    server_uri=st.none() | TEXT,
    remote_name=st.none() | NAMES,
    output_schema=st.none() | OBJECTS,
    hints=st.none() | HINTS,
    credential=st.none() | st.just({"type": "bearer", "token": "${TOKEN}"}),
)
MEANT_ROWS = WORKFLOWS | REMOTES
"""Rows as the two ways of making them give them."""

ROWS = st.lists(st.none() | ANY_ROW | MEANT_ROWS, max_size=6)

READ = ToolRow.remote(
    "fs.read",
    "Reads a file.",
    {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    server_uri="https://files.example.com/mcp",
    remote_name="read",
    output_schema={"type": "object", "properties": {"content": {"type": "string"}}},
    hints=Hints(read_only=True, destructive=False),
    credential={"type": "bearer", "token": "${FILES_TOKEN}"},
)
REPORT = ToolRow.workflow(
    "report",
    "Counts orders.",
    {"type": "object", "properties": {"since": {"type": "string", "format": "date"}}},
    input_ports=[Port("orders", "What was ordered", columns=(Column("id", "int"), Column("at", "date")))],
    output_ports=[Port("message"), Port("counts", columns=(Column("n", "int"),))],
    message_output_port=0,
    file_store_keys=["8e1f", "03ab"],
)
SEARCH = ToolRow(ToolKind.OPENAPI, "shop.search", "Größe, 寸法, 📏", server_uri="https://shop.example.com")
