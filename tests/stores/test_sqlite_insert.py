"""Rows that are added many with one statement: all, in their order, whatever SQLite takes at once."""

from __future__ import annotations

import sqlite3

import pytest

from spindle.stores.sqlite_insert import MOST_VALUES, RowInsert

INSERT = RowInsert("t", ("a", "b", "c", "d"), optional=2)


@pytest.mark.parametrize("limit", [MOST_VALUES, 999, 9, 4])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 500, MOST_VALUES // 2 + 3])
def test_all_rows_are_added_in_their_order(count: int, limit: int) -> None:
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.execute("CREATE TABLE t (number INTEGER PRIMARY KEY, a, b, c, d)")
    db.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, limit)
    # Rows with something in the columns that most leave empty stand between those without.
    rows = [
        (number, f"b{number}", *(("c", None) if number % 50 == 7 else (None, None)))
        for number in range(count)
    ]
    INSERT.add(db, rows)
    assert db.execute("SELECT a, b, c, d FROM t ORDER BY number").fetchall() == rows
    db.close()


def test_many_rows_take_few_statements() -> None:
    """After each a thread waits for its turn to run Python again."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.execute("CREATE TABLE t (a, b, c, d)")
    made = list[str]()
    db.set_trace_callback(made.append)
    INSERT.add(db, [(number, "b", None, None) for number in range(MOST_VALUES)])
    assert len(made) == 3
    made.clear()
    INSERT.add(db, [(number, "b", None, None) for number in range(MOST_VALUES // 2 - 1)])
    assert len(made) == (MOST_VALUES // 2 - 1).bit_count()
    db.close()
