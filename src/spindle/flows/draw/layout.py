"""Places the boxes and lines of a drawn flow: layers from top to bottom, with loops led back along the
side."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from spindle.errors import FlowError
from spindle.flows.check.graph import Graph

GAP_X: Final = 36.0
GAP_Y: Final = 60.0
LANE: Final = 22.0
"""The distance between two parallel lines."""
SWEEPS: Final = 8
MAX_PLACES: Final = 5000
"""Places of lines in the layers that they pass. So many take about three seconds, and nobody reads them."""

Point = tuple[float, float]
Key = str | tuple[int, int]
"""A node, or the place of a line in a layer that it passes."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line from one node to another, for all actions that lead there."""

    source: str
    target: str
    points: tuple[Point, ...]
    label_at: Point
    is_loop: bool


@dataclass(slots=True)
class Layout:
    """The places of all boxes and lines, and the size of the picture."""

    boxes: dict[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    """The upper left corner of each node."""
    lines: list[Line] = field(default_factory=list[Line])
    width: float = 0.0
    height: float = 0.0


def laid_out(
    graph: Graph, sizes: Mapping[str, tuple[float, float]], labels: Mapping[tuple[str, str], float]
) -> Layout:
    """Returns the layout of a flow. `sizes` are those of the boxes; `labels` the width of the text on the
    line between two nodes. Raises FlowError for one that is too large."""
    return _Placing(graph, sizes, labels).layout()


class _Placing:
    def __init__(
        self, graph: Graph, sizes: Mapping[str, tuple[float, float]], labels: Mapping[tuple[str, str], float]
    ) -> None:
        self._sizes = sizes
        self._labels = labels
        order = [*graph.order, *(id for id in graph.ids if id not in graph.order)]
        place = {id: index for index, id in enumerate(order)}
        pairs = dict.fromkeys((edge.source, edge.target) for id in order for edge in graph.edges[id])
        self._forward = [pair for pair in pairs if place[pair[0]] < place[pair[1]]]
        self._loops = [pair for pair in pairs if place[pair[0]] >= place[pair[1]]]
        self._ranks = dict.fromkeys(order, 0)
        for source, target in sorted(self._forward, key=lambda pair: place[pair[0]]):
            self._ranks[target] = max(self._ranks[target], self._ranks[source] + 1)
        passed = sum(self._ranks[target] - self._ranks[source] for source, target in self._forward)
        if passed + len(self._loops) > MAX_PLACES:
            raise FlowError(
                f"the flow has {len(pairs)} lines between {len(order)} nodes, too many to be drawn",
                hint="put parts of it into flows of their own",
            )
        self._layers: list[list[Key]] = [[] for _ in range(max(self._ranks.values(), default=0) + 1)]
        for id in order:
            self._layers[self._ranks[id]].append(id)
        self._above: dict[Key, list[Key]] = {id: [] for id in order}
        self._below: dict[Key, list[Key]] = {id: [] for id in order}
        self._chains = [self._chain(number, *pair) for number, pair in enumerate(self._forward)]
        self._x: dict[Key, float] = {}
        """Of the middle."""
        self._tops: list[float] = []

    def _chain(self, number: int, source: str, target: str) -> list[Key]:
        """Returns the line's places, one in each layer from its source to its target."""
        passed: list[Key] = [(number, rank) for rank in range(self._ranks[source] + 1, self._ranks[target])]
        for key in passed:
            assert isinstance(key, tuple)
            self._layers[key[1]].append(key)
            self._above[key], self._below[key] = [], []
        chain: list[Key] = [source, *passed, target]
        for upper, lower in itertools.pairwise(chain):
            self._below[upper].append(lower)
            self._above[lower].append(upper)
        return chain

    def _width(self, key: Key) -> float:
        return self._sizes[key][0] if isinstance(key, str) else LANE

    def _height(self, rank: int) -> float:
        return max((self._sizes[key][1] for key in self._layers[rank] if isinstance(key, str)), default=0.0)

    def layout(self) -> Layout:
        self._arrange()
        self._set_x()
        gaps = self._gaps()
        y = 0.0
        for rank, gap in enumerate(gaps):
            self._tops.append(y)
            y += self._height(rank) + gap
        found = Layout()
        for id, rank in self._ranks.items():
            width, height = self._sizes[id]
            top = self._tops[rank] + (self._height(rank) - height) / 2
            found.boxes[id] = (self._x[id] - width / 2, top)
        found.width = max(
            (self._x[key] + self._width(key) / 2 for layer in self._layers for key in layer), default=0
        )
        found.lines = self._settle_labels([self._line(found, chain) for chain in self._chains])
        found.height = y - gaps[-1]
        self._lead_back(found)
        return found

    def _gaps(self) -> list[float]:
        """Returns the space below each layer: for lines, for those that come back, and for their labels."""
        crowd = [0] * len(self._layers)
        for source, target in self._loops:
            crowd[self._ranks[source]] += 1
            if self._ranks[target]:
                crowd[self._ranks[target] - 1] += 1
        return [GAP_Y + 14 * count for count in crowd]

    # --- order within the layers

    def _arrange(self) -> None:
        for sweep in range(SWEEPS):
            downwards = sweep % 2 == 0
            neighbours = self._above if downwards else self._below
            layers = self._layers if downwards else list(reversed(self._layers))
            for before, layer in itertools.pairwise(layers):
                place = {key: index for index, key in enumerate(before)}
                wanted: dict[Key, float] = {}
                for index, key in enumerate(layer):
                    wanted[key] = _mean([place[other] for other in neighbours[key]], index)
                layer.sort(key=wanted.__getitem__)

    # --- left and right

    def _set_x(self) -> None:
        for layer in self._layers:
            x = 0.0
            for key in layer:
                self._x[key] = x + self._width(key) / 2
                x += self._width(key) + GAP_X
        for sweep in range(SWEEPS * 5):
            layers = self._layers if sweep % 2 == 0 else list(reversed(self._layers))
            for layer in layers:
                wanted: list[float] = []
                for key in layer:
                    near = self._above[key] + self._below[key]
                    wanted.append(_mean([self._x[other] for other in near], self._x[key]))
                self._spread(layer, wanted)
        left = min(
            (self._x[key] - self._width(key) / 2 for layer in self._layers for key in layer), default=0
        )
        for key in self._x:
            self._x[key] -= left

    def _spread(self, layer: Sequence[Key], wanted: list[float]) -> None:
        """Moves boxes as near to their wanted places as they can be without overlapping."""
        right, left = list(wanted), list(wanted)
        for index in range(1, len(layer)):
            right[index] = max(right[index], right[index - 1] + self._apart(layer[index - 1], layer[index]))
        for index in range(len(layer) - 2, -1, -1):
            left[index] = min(left[index], left[index + 1] - self._apart(layer[index], layer[index + 1]))
        for key, one, other in zip(layer, right, left, strict=True):
            self._x[key] = (one + other) / 2

    def _apart(self, one: Key, other: Key) -> float:
        gap = GAP_X if isinstance(one, str) or isinstance(other, str) else LANE / 2
        return (self._width(one) + self._width(other)) / 2 + gap

    # --- lines

    def _line(self, found: Layout, chain: list[Key]) -> Line:
        source, target = str(chain[0]), str(chain[-1])
        x, y = self._port(found, source, chain[1], below=True)
        end = self._port(found, target, chain[-2], below=False)
        points: list[Point] = [(x, y)]
        for key in chain[1:-1]:
            assert isinstance(key, tuple)
            top = self._tops[key[1]]
            points += [(self._x[key], top), (self._x[key], top + self._height(key[1]))]
        points.append(end)
        (x0, y0), (x1, y1) = points[0], points[1]
        return Line(source, target, tuple(points), ((x0 + x1) / 2, (y0 + y1) / 2), is_loop=False)

    def _port(self, found: Layout, id: str, towards: Key, *, below: bool) -> Point:
        """Returns the point where a line leaves or reaches a box, beside the other lines, in their order."""
        others = sorted(self._below[id] if below else self._above[id], key=lambda key: self._x[key])
        left, top = found.boxes[id]
        width, height = self._sizes[id]
        step = min(LANE * 1.4, (width - 30) / max(len(others), 1))
        offset = (others.index(towards) - (len(others) - 1) / 2) * step
        return left + width / 2 + offset, top + (height if below else 0)

    def _lead_back(self, found: Layout) -> None:
        """Leads each loop to the right of everything that it passes, the shortest nearest."""
        edges = [
            max((self._x[key] + self._width(key) / 2 for key in layer), default=0.0) for layer in self._layers
        ]
        turns: dict[int, int] = {}
        loops = sorted(self._loops, key=lambda pair: self._ranks[pair[0]] - self._ranks[pair[1]])
        for number, (source, target) in enumerate(loops):
            rank, first = self._ranks[source], self._ranks[target]
            # It runs below its source's layer too, where lines of the next one begin.
            passed = range(min(first, rank), min(max(first, rank) + 2, len(edges)))
            half = self._labels.get((source, target), 0.0) / 2
            lane = max(edges[index] for index in passed) + LANE + half
            for index in passed:
                edges[index] = lane + half
            (left, top), (width, height) = found.boxes[source], self._sizes[source]
            x0, y0 = left + width - 14, top + height
            (left, top), (width, height) = found.boxes[target], self._sizes[target]
            x1, y1 = left + width - 14 - 9 * (number % 3), top
            turns[rank] = turns.get(rank, 0) + 1
            turn = self._tops[rank] + self._height(rank) + 4 + 12 * turns[rank]
            turns[first - 1] = turns.get(first - 1, 0) + 1
            back = self._tops[first] - 6 - 12 * turns[first - 1]
            points = ((x0, y0), (x0, turn), (lane, turn), (lane, back), (x1, back), (x1, y1))
            found.lines.append(Line(source, target, points, (lane, (turn + back) / 2), is_loop=True))
            found.height = max(found.height, turn + 8)
        found.width = max([found.width, *edges])

    def _settle_labels(self, lines: list[Line]) -> list[Line]:
        """Moves labels that would overlap along their lines, alternately up and down."""
        settled: list[Line] = []
        taken: list[tuple[float, float, float]] = []
        for line in sorted(lines, key=lambda line: (line.points[0][1], line.label_at[0])):
            half = self._labels.get((line.source, line.target), 0.0) / 2 + 3
            places = [_along(line.points[0], line.points[1], part) for part in (0.5, 0.76, 0.26)]
            free = [
                (x, y)
                for x, y in places
                if all(
                    abs(y - other_y) > 13 or x + half < left or x - half > right
                    for left, right, other_y in taken
                )
            ]
            x, y = (free or places)[0]
            if half > 3:
                taken.append((x - half, x + half, y))
            settled.append(replace(line, label_at=(x, y)))
        return settled


def _along(start: Point, end: Point, part: float) -> Point:
    """Returns a point on the curve between two points, which leaves and arrives vertically."""
    bent = part * part * (3 - 2 * part)
    return start[0] + (end[0] - start[0]) * bent, start[1] + (end[1] - start[1]) * (
        1.5 * part * (1 - part) + part**3
    )


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
