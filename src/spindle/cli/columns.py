"""Lays out the rows of a listing for a terminal.

A key or a name must be ready to be copied, so it is shown whole or not at all: a narrow terminal gets fewer
columns. Only the last column, which is text to read, is shortened or wrapped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len, set_cell_size

GAP = 2
WIDEST = 48
"""Characters up to which a column is aligned. A longer cell stands on a line of its own."""
NARROWEST = 20
"""Characters without which the last column is not worth showing."""


def lay_out(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    room: int,
    *,
    drop: Sequence[str] = (),
    wrap_last: bool = False,
) -> list[str]:
    """Returns the lines of a table, its headings first. Columns named in `drop` go first, in that order, if
    `room` is not enough for all."""
    *columns, text = zip(headings, *rows, strict=True)
    widths = [*(_width(column, room) for column in columns), max(map(cell_len, text))]
    kept = _kept(headings, widths, room, drop)
    if len(kept) > 1 and not any(row[-1] for row in rows):
        kept = [index for index in kept if index < len(headings) - 1]
    lines: list[str] = []
    for row in (headings, *rows):
        lines += _line(row, kept, widths, room, len(headings) - 1, wrap_last=wrap_last)
    return lines


def _width(cells: Sequence[str], room: int) -> int:
    """The width of a column in which all cells stand but those that are much longer than others."""
    most = max(min(WIDEST, room // 2), NARROWEST, cell_len(cells[0]))
    return max(width for width in map(cell_len, cells) if width <= most)


def _kept(headings: Sequence[str], widths: Sequence[int], room: int, drop: Sequence[str]) -> list[int]:
    last = len(headings) - 1
    kept = list(range(len(headings)))
    order = [headings.index(name) for name in drop]
    order += [index for index in range(last, -1, -1) if index not in order]

    def needed() -> int:
        shown = [min(widths[index], NARROWEST) if index == last else widths[index] for index in kept]
        return sum(shown) + GAP * (len(kept) - 1)

    for index in order:
        if len(kept) == 1 or needed() <= room:
            break
        kept.remove(index)
    return kept


def _line(
    row: Sequence[str], kept: Sequence[int], widths: Sequence[int], room: int, last: int, *, wrap_last: bool
) -> Iterator[str]:
    """One row, on more than one line where a cell needs it."""
    line, at = "", 0
    for index in kept:
        cell = row[index]
        if not cell:
            at += widths[index] + GAP
            continue
        if cell_len(line) > max(at - GAP, 0):
            yield line
            line = ""
        if index != last and at > GAP and at + cell_len(cell) > room:
            # As far to the left as it can be, so that it needs as few lines of the terminal as it can.
            yield line
            line = (" " * GAP if GAP + cell_len(cell) <= room else "") + cell
            at += widths[index] + GAP
            continue
        line += " " * (at - cell_len(line))
        if index == last:
            yield from _text(line, cell, max(room - at, 1), wrap=wrap_last)
            return
        line += cell
        at += widths[index] + GAP
    yield line


def _text(before: str, text: str, room: int, *, wrap: bool) -> Iterator[str]:
    if cell_len(text) <= room:
        yield before + text
    elif " " not in text:
        # One long word is a URL or a path, which nobody could use if its end were missing.
        if before.strip():
            yield before.rstrip()
        yield " " * GAP + text
    elif wrap:
        for part in wrapped(text, room):
            yield before + part
            before = " " * cell_len(before)
    else:
        yield before + shortened(text, room)


def shortened(text: str, room: int) -> str:
    """The beginning of a text, ended between two words where there are some."""
    if cell_len(text) <= room:
        return text
    cut = set_cell_size(text, max(room - 2, 0)).rstrip()
    if " " in cut[len(cut) // 2 :] and not text[len(cut) : len(cut) + 1].isspace():
        cut = cut.rpartition(" ")[0]
    return f"{cut.rstrip()} …"


def wrapped(text: str, room: int) -> list[str]:
    """The text in lines of at most this width, unless a single word is longer."""
    lines: list[str] = []
    for word in text.split():
        if lines and cell_len(lines[-1]) + 1 + cell_len(word) <= room:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
