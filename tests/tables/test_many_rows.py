"""A column of 100,000 tools: right, whole, and with work that grows with the rows, not with their square."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from servers.http_server import HttpServer
from spindle.tables import Port, ToolRow, open_rows, read_table, tool_table, write_table
from spindle.tables.rows_source import by_name

MANY = 100_000


def rows_of(count: int, server: str = "http://127.0.0.1:9/mcp") -> Iterator[ToolRow]:
    """Servers' tools, of which many share a name, and every tenth a workflow of other software."""
    for number in range(count):
        if number % 10 == 9:
            yield ToolRow.workflow(
                f"report_{number}", "", output_ports=[Port("made")], file_store_keys=["8e1f"]
            )
        else:
            yield ToolRow.remote(
                f"tool_{number % 5_000}", f"Does {number}.", server_uri=server, remote_name="echo"
            )


@contextmanager
def counted() -> Generator[list[int]]:
    """Counts the lines of Spindle that run meanwhile in this thread, and of methods that dataclasses made."""
    lines = [0]

    def each(_frame: FrameType, event: str, _argument: Any) -> Any:
        lines[0] += event == "line"
        return each

    def entered(frame: FrameType, _event: str, _argument: Any) -> Any:
        file = frame.f_code.co_filename
        return each if "/spindle/" in file or file.startswith("<") else None

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        yield lines
    finally:
        sys.settrace(before)


def test_a_hundred_thousand_rows_are_written_read_and_named(tmp_path: Path) -> None:
    rows = list(rows_of(MANY))
    file = tmp_path / "tools.parquet"
    write_table(tool_table(rows), file)
    again = read_table(file)["tool"].to_pylist()
    assert again == rows
    found = by_name([*again, *rows[:1_000], None])  # equal rows are taken once
    assert len(found) == MANY
    assert found["tool_0"] is again[0]
    assert found["tool_0_2"] is again[5_000]
    assert found[f"report_{MANY - 1}"] is again[-1]


async def test_each_of_a_hundred_thousand_rows_can_be_called() -> None:
    notes: list[str] = []
    async with HttpServer() as server:
        rows = list(rows_of(MANY, server.url))
        async with open_rows(rows, note=notes.append) as opened:
            assert len(opened.left_out) == MANY // 10
            result = await opened.call(rows[-2], {"text": "hi"})
            assert "hi" in result.text
        assert server.calls("echo") == 1
    (told,) = notes
    assert "report_9, report_19," in told
    assert f"and {MANY // 10 - 10:,} more are left out" in told


def test_the_work_for_each_row_does_not_grow_with_their_number() -> None:
    def lines_a_row(count: int) -> float:
        rows = list(rows_of(count))
        with counted() as lines:
            by_name(rows)
            tool_table(rows)["tool"].to_pylist()
        return lines[0] / count

    assert lines_a_row(4_000) < 1.2 * lines_a_row(500)
