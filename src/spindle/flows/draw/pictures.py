"""Draws a flow, as text for Mermaid or as SVG without other files."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from spindle.domain.visible import visible
from spindle.flows.check.graph import Graph
from spindle.flows.check.shapes import REFUSED
from spindle.flows.definition import DEFAULT_ACTION, FlowDefinition, NodeDefinition
from spindle.flows.draw.layout import Layout, Line, Point, laid_out
from spindle.flows.interface import ERROR_ACTIONS

MAX_TEXT: Final = 40
PAD: Final = 16.0
HEADER: Final = 30.0
FAILURES: Final = frozenset({*ERROR_ACTIONS, REFUSED})


# --- Mermaid


def mermaid(definition: FlowDefinition) -> str:
    """Returns a Mermaid `flowchart`. Inner flows are subgraphs; edges of errors are dotted, those of branches
    that run at the same time are thick."""
    lines = ["flowchart TD"]
    _mermaid_flow(definition, "n", "  ", lines)
    return "\n".join(lines) + "\n"


def _mermaid_flow(definition: FlowDefinition, prefix: str, indent: str, lines: list[str]) -> None:
    graph = Graph(definition)
    names = {id: f"{prefix}{index}" for index, id in enumerate(graph.ids)}
    for node in definition.nodes:
        name, title, below = names[node.id], _quoted(node.id), _quoted(_subtitle(node))
        if node.flow is not None:
            lines.append(f'{indent}subgraph {name}["{_quoted(_heading(node))}"]')
            _mermaid_flow(node.flow, f"{name}_", f"{indent}  ", lines)
            lines.append(f"{indent}end")
        elif node.tool is None:
            lines.append(f'{indent}{name}(["{title}<br/><i>{below}</i>"])')
        else:
            lines.append(f'{indent}{name}["{title}<br/><small>{below}</small>"]')
    if graph.start is not None:
        lines.append(f"{indent}{prefix}start(( )) --> {names[graph.start]}")
    beside = _beside(graph)
    for (source, target), actions in _actions(graph).items():
        arrow = "-.->" if _are_failures(actions) else "==>" if (source, target) in beside else "-->"
        label = _label(actions)
        text = f'|"{_quoted(label)}"|' if label else ""
        lines.append(f"{indent}{names[source]} {arrow}{text} {names[target]}")


def _quoted(text: str) -> str:
    """Writes everything but letters, digits and harmless characters as Mermaid's own entities."""
    return re.sub(r"[^\w ./:,?!()+-]", lambda found: f"#{ord(found[0])};", " ".join(text.split()))


# --- SVG


@dataclass(frozen=True, slots=True)
class Marked:
    """The look of a node in the picture of one run."""

    state: str
    """The class of its group, such as `done`."""
    words: str
    """Said to those who listen, and shown on hover: `done after 0.2 s`."""
    link: str | None = None
    """The address that the node leads to."""


Marks = Mapping[str, Marked]
"""By node, below those of the flows that contain it: `outer/inner`."""
SIGNS: Final = {
    "done": "M-3.5 0.2 L-1 2.7 L3.6 -2.6",
    "failed": "M-2.8 -2.8 L2.8 2.8 M2.8 -2.8 L-2.8 2.8",
    "running": "M-1.8 -3.2 L3.2 0 L-1.8 3.2 Z",
    "waiting": "M-1.8 -3 V3 M1.8 -3 V3",
    "skipped": "M-3 0 H3",
}
"""The sign of each state, around its middle: a colour alone says nothing to some."""


def svg(definition: FlowDefinition, marks: Marks | None = None, *, with_style: bool = True) -> str:
    """Returns an SVG that is light or dark as its reader prefers. `marks` show how its nodes stand in a run.
    `with_style`: False for a page that has the styles of its classes itself."""
    picture = _picture(definition, marks or {})
    title = _escaped(definition.name or "flow")
    width, height = picture.width + 2 * PAD, picture.height + 2 * PAD
    role = "group" if any(mark.link for mark in (marks or {}).values()) else "img"
    style = f"<style>{_STYLE}</style>\n" if with_style else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="spindle-flow" role="{role}" aria-label="{title}" '
        f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}">\n'
        f"<title>{title}</title>\n{style}"
        f"<defs>{_arrow('arrow')}{_arrow('arrow-error')}</defs>\n"
        f'<rect class="page" width="100%" height="100%"/>\n'
        f'<g transform="translate({PAD:g} {PAD:g})">\n{picture.content}</g>\n</svg>\n'
    )


_STYLE: Final = """
.spindle-flow { --page: #ffffff; --box: #f6f8fa; --edge: #d0d7de; --text: #1f2328; --soft: #59636e;
  --line: #6e7781; --error: #cf222e; --ask: #fff8c5; --ask-edge: #d4a72c; --inner: #fbfcfd;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
@media (prefers-color-scheme: dark) { .spindle-flow { --page: #0d1117; --box: #161b22; --edge: #3d444d;
  --text: #e6edf3; --soft: #9198a1; --line: #8b949e; --error: #ff7b72; --ask: #272115; --ask-edge: #9e6a03;
  --inner: #10151c; } }
.spindle-flow .page { fill: var(--page); }
.spindle-flow .box { fill: var(--box); stroke: var(--edge); stroke-width: 1.25; }
.spindle-flow .ask { fill: var(--ask); stroke: var(--ask-edge); }
.spindle-flow .model, .spindle-flow .agent { stroke: var(--line); stroke-dasharray: 2 2; }
.spindle-flow .wait { stroke: var(--line); stroke-dasharray: 1 3; }
.spindle-flow .inner { fill: var(--inner); stroke: var(--edge); stroke-dasharray: none; }
.spindle-flow .id { fill: var(--text); font-size: 13px; font-weight: 600; }
.spindle-flow .what { fill: var(--soft); font-size: 11px; }
.spindle-flow .line { fill: none; stroke: var(--line); stroke-width: 1.5; }
.spindle-flow .line.error { stroke: var(--error); stroke-dasharray: 5 4; }
.spindle-flow .line.beside { stroke-width: 3; }
.spindle-flow .label { fill: var(--soft); font-size: 11px; paint-order: stroke; stroke: var(--page);
  stroke-width: 5px; stroke-linejoin: round; }
.spindle-flow .label.error { fill: var(--error); }
.spindle-flow .nested .label { stroke: var(--inner); }
.spindle-flow .start, .spindle-flow .arrow { fill: var(--line); }
.spindle-flow .arrow-error { fill: var(--error); }
"""


def _arrow(name: str) -> str:
    return (
        f'<marker id="{name}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        f'orient="auto-start-reverse"><path class="{name}" d="M0 0.8 L10 5 L0 9.2 z"/></marker>'
    )


@dataclass(frozen=True, slots=True)
class _Picture:
    content: str
    width: float
    height: float


def _picture(definition: FlowDefinition, marks: Marks, prefix: str = "") -> _Picture:
    graph = Graph(definition)
    inner = {
        node.id: _picture(node.flow, marks, f"{prefix}{node.id}/")
        for node in definition.nodes
        if node.flow is not None
    }
    nodes = {node.id: node for node in reversed(definition.nodes)}
    sizes = {id: _size(nodes[id], inner.get(id)) for id in graph.ids}
    actions = _actions(graph)
    labels = {pair: _text_width(_label(names), 11) for pair, names in actions.items() if _label(names)}
    layout = laid_out(graph, sizes, labels)
    lead_in = 26.0
    parts: list[str] = []
    if graph.start is not None:
        left, top = layout.boxes[graph.start]
        x = left + sizes[graph.start][0] / 2
        parts.append(f'<circle class="start" cx="{x:.1f}" cy="5" r="5"/>\n')
        parts.append(f'<path class="line" marker-end="url(#arrow)" d="M{x:.1f} 10 V{top + lead_in:.1f}"/>\n')
    parts.append(f'<g transform="translate(0 {lead_in:g})">\n')
    parts += [
        _draw_node(nodes[id], layout, sizes[id], inner.get(id), marks.get(f"{prefix}{id}"))
        for id in graph.ids
    ]
    drawn = [(line, actions[line.source, line.target]) for line in layout.lines]
    beside = _beside(graph)
    parts += [
        _draw_line(line, _are_failures(names), (line.source, line.target) in beside) for line, names in drawn
    ]
    # What is written goes over all lines.
    parts += [_draw_label(line, names) for line, names in drawn]
    parts.append("</g>\n")
    return _Picture("".join(parts), layout.width, layout.height + lead_in)


def _draw_node(
    node: NodeDefinition,
    layout: Layout,
    size: tuple[float, float],
    inner: _Picture | None,
    mark: Marked | None,
) -> str:
    (left, top), (width, height) = layout.boxes[node.id], size
    kind = f"box {'inner' if inner is not None else node.kinds[0]}"
    radius = height / 2 if node.ask is not None else 8
    middle = left + width / 2
    said = mark.words if mark is not None else ""
    full = _escaped("\n".join(filter(None, (node.id, _full_subtitle(node), said))))
    state = f' class="state {mark.state}"' if mark is not None else ""
    parts = [
        f"<g{state}><title>{full}</title>",
        f'<rect class="{kind}" x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" '
        f'rx="{radius:g}"/>',
    ]
    if inner is not None:
        parts.append(_text(_heading(node), "id", left + PAD, top + 20, "start"))
        x = left + (width - inner.width) / 2
        parts.append(
            f'<g class="nested" transform="translate({x:.1f} {top + HEADER:.1f})">{inner.content}</g>'
        )
    elif below := _subtitle(node):
        parts += [_text(node.id, "id", middle, top + 20), _text(below, "what", middle, top + 36)]
    else:
        parts.append(_text(node.id, "id", middle, top + height / 2 + 5))
    if mark is None:
        return "".join([*parts, "</g>\n"])
    if sign := SIGNS.get(mark.state):
        parts.append(
            f'<g class="sign" transform="translate({left + width:.1f} {top:.1f})"><circle r="8"/>'
            f'<path d="{sign}"/></g>'
        )
    if mark.link is None or inner is not None:  # a link holds no other
        return "".join([*parts, "</g>\n"])
    return f'<a href="{_escaped(mark.link)}">{"".join(parts)}</g></a>\n'


def _draw_line(line: Line, is_error: bool, is_beside: bool) -> str:
    path = _rounded(line.points) if line.is_loop else _curved(line.points)
    kind, arrow = ("line error", "arrow-error") if is_error else ("line", "arrow")
    kind += " beside" if is_beside else ""
    return f'<path class="{kind}" marker-end="url(#{arrow})" d="{path}"/>\n'


def _draw_label(line: Line, names: list[str]) -> str:
    label = _label(names)
    if not label:
        return ""
    kind = "label error" if _are_failures(names) else "label"
    return _text(label, kind, line.label_at[0], line.label_at[1] + 4) + "\n"


def _curved(points: tuple[Point, ...]) -> str:
    x, y = points[0]
    path = f"M{x:.1f} {y:.1f}"
    for next_x, next_y in points[1:]:
        bend = (next_y - y) / 2
        path += f" C{x:.1f} {y + bend:.1f} {next_x:.1f} {next_y - bend:.1f} {next_x:.1f} {next_y:.1f}"
        x, y = next_x, next_y
    return path


def _rounded(points: tuple[Point, ...], radius: float = 7) -> str:
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        start, end = _towards(corner, before, radius), _towards(corner, after, radius)
        path += f" L{start[0]:.1f} {start[1]:.1f} Q{corner[0]:.1f} {corner[1]:.1f} {end[0]:.1f} {end[1]:.1f}"
    return f"{path} L{points[-1][0]:.1f} {points[-1][1]:.1f}"


def _towards(corner: Point, other: Point, distance: float) -> Point:
    length = abs(other[0] - corner[0]) + abs(other[1] - corner[1])  # all lines are upright or level
    part = min(distance / length, 0.5) if length else 0.0
    return corner[0] + (other[0] - corner[0]) * part, corner[1] + (other[1] - corner[1]) * part


def _text(text: str, kind: str, x: float, y: float, anchor: str = "middle") -> str:
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{_escaped(_short(text))}</text>'
    )


def _size(node: NodeDefinition, inner: _Picture | None) -> tuple[float, float]:
    title = _text_width(_short(node.id if inner is None else _heading(node)), 13.5)
    if inner is not None:
        return max(inner.width, title) + 2 * PAD, inner.height + HEADER + PAD
    below = _subtitle(node)
    width = max(title, _text_width(_short(below), 11), 70) + 2 * PAD
    return width + (PAD if node.ask is not None else 0), 48.0 if below else 40.0


def _text_width(text: str, size: float) -> float:
    """Returns an estimate: letters of most scripts are narrower than this, those of some are wider."""
    return sum(size if ord(char) > 0x2E80 else size * 0.6 for char in text)


# --- what both say


def _actions(graph: Graph) -> dict[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], list[str]] = {}
    for id in graph.ids:
        for edge in graph.edges[id]:
            found.setdefault((edge.source, edge.target), []).append(edge.way)
    return found


def _are_failures(ways: list[str]) -> bool:
    return all(way.split(" ", 1)[0] in FAILURES for way in ways)


def _beside(graph: Graph) -> set[tuple[str, str]]:
    """Returns the lines that begin branches, which run at the same time."""
    return {
        (id, target)
        for id in graph.ids
        for targets in graph.following(id).values()
        if len(targets) > 1
        for target in targets
    }


def _label(actions: list[str]) -> str:
    return "" if actions == [DEFAULT_ACTION] else ", ".join(actions)


def _subtitle(node: NodeDefinition) -> str:
    text = _full_subtitle(node)
    return _short(text)


def _heading(node: NodeDefinition) -> str:
    """Returns the title of a flow inside."""
    return f"{node.id} {_full_subtitle(node)}".strip()


def _full_subtitle(node: NodeDefinition) -> str:
    return ", ".join(filter(None, [_join(node), _work(node)]))


def _join(node: NodeDefinition) -> str:
    return f"join {node.join.wait}" if node.join is not None else ""


def _work(node: NodeDefinition) -> str:
    if node.transform is not None:
        said = ", ".join(f"{name} = {_brief(value)}" for name, value in node.transform.items())
    elif node.flow is not None:
        said = f"while {node.loop.repeat_while}" if node.loop is not None else ""
    else:
        said = node.ask.message if node.ask is not None else node.says
    each = "for each" if node.batch is not None and node.ask is None else ""
    held = "with approval" if node.approval is not None else ""
    return " ".join(filter(None, [said, each, held]))


def _brief(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"


def _escaped(text: str) -> str:
    return html.escape(_NOT_XML.sub("\ufffd", visible(text)))


_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
