"""Small charts as SVG: one for each row of figures, without axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

WIDTH: Final = 240
HEIGHT: Final = 40
_GAP: Final = 1.0


def bars(values: Sequence[float], bad: Sequence[float] = (), *, label: str) -> Markup:
    """Returns a column for each value, with the part that is `bad` at its foot. `label`: in words."""
    most = max((value for value in values), default=0) or 1
    step = WIDTH / max(len(values), 1)
    parts: list[Markup] = []
    for at, value in enumerate(values):
        if value <= 0:
            continue
        # Whatever there is can be seen, also beside much more.
        height = max(value / most * HEIGHT, 1.5)
        parts.append(_column("bar", at * step, step, height))
        if at < len(bad) and bad[at] > 0:
            parts.append(_column("bar bad", at * step, step, max(bad[at] / most * HEIGHT, 1.5)))
    return _chart(parts, label)


def line(values: Sequence[float | None], *, label: str) -> Markup:
    """Returns a line through the values; where there is none it is broken."""
    known = [value for value in values if value is not None]
    most = max(known, default=0) or 1
    step = WIDTH / max(len(values), 1)
    parts: list[Markup] = []
    points: list[str] = []
    for at, value in enumerate((*values, None)):
        if value is not None:
            points.append(f"{at * step + step / 2:.1f} {HEIGHT - 2 - value / most * (HEIGHT - 4):.1f}")
            continue
        if len(points) == 1:  # a line of one point would not be seen
            x, y = points[0].split()
            points = [f"{float(x) - step / 2:.1f} {y}", f"{float(x) + step / 2:.1f} {y}"]
        if points:
            parts.append(Markup('<path class="line" d="M{}"/>').format("L".join(points)))
        points = []
    return _chart(parts, label)


def share(part: float, label: str) -> Markup:
    """Returns a bar of which this part, from 0 to 1, is filled."""
    filled = min(max(part, 0), 1) * 100
    return Markup(
        '<svg class="share" viewBox="0 0 100 4" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<rect class="base" width="100" height="4"/><rect class="bar" width="{:.1f}" height="4"/></svg>'
    ).format(label, filled)


def _column(kind: str, x: float, step: float, height: float) -> Markup:
    # Numbers and a word of ours, a hundred times: to escape each of them takes longer than the page.
    width = max(step - _GAP, 0.5)
    shape = f'x="{x:.1f}" y="{HEIGHT - height:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return Markup(f'<rect class="{kind}" {shape}/>')  # noqa: S704


def _chart(inside: Sequence[Markup], label: str) -> Markup:
    return Markup(
        '<svg class="chart" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<path class="base" d="M0 {}H{}"/>{}</svg>'
    ).format(WIDTH, HEIGHT, label, HEIGHT - 0.5, WIDTH, Markup("").join(inside))
