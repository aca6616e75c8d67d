"""Figures beside their goals."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Row:
    part: str
    what: str
    value: float
    unit: str
    ratio: float | None = None
    """To the same figure of `mcp.Client`, or of what the row names; where gateways are compared, Spindle's
    to this one's."""
    goal: float | None = None
    """The most it may be: the ratio where there is one, else the value."""
    at_least: bool = False
    """True if the goal is the least it may be."""

    @property
    def met(self) -> bool | None:
        if self.goal is None:
            return None
        found = self.value if self.ratio is None else self.ratio
        return found >= self.goal if self.at_least else found <= self.goal


def table(rows: list[Row]) -> str:
    width = max(len(row.what) for row in rows)
    lines = [f"{'':{width}}  {'figure':>10}          {'ratio':>6}  goal"]
    for row in rows:
        ratio = f"{row.ratio:6.2f}" if row.ratio is not None else " " * 6
        goal = (
            ""
            if row.met is None
            else f"{'≥' if row.at_least else '≤'} {row.goal:g} {'✓' if row.met else '✗'}"
        )
        digits = 3 if row.unit == "s" else 1 if row.value < 100 else 0
        lines.append(f"{row.what:{width}}  {row.value:10,.{digits}f} {row.unit:8} {ratio}  {goal}".rstrip())
    return "\n".join(lines)
