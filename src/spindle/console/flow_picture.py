"""The picture of a flow on a page, and with a run's states in colour, signs and words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from markupsafe import Markup

if TYPE_CHECKING:
    from spindle.flows.definition import FlowDefinition
    from spindle.flows.standing import Standing

Link = Callable[[str], str]


def flow_picture(
    definition: FlowDefinition,
    standing: Mapping[str, Standing] | None = None,
    link: Link | None = None,
) -> Markup:
    """Returns the flow as an SVG whose styles are those of the console. `standing`: how its nodes stand in a
    run (`flows.standing`). `link` returns the address that a node leads to, by its place `outer/inner`."""
    from spindle.flows.draw.pictures import Marked, svg  # only some pages draw, and idle servers none

    marks = {
        place: Marked(node.state, node.words, link(place) if link is not None and node.visits else None)
        for place, node in (standing or {}).items()
    }
    return Markup(svg(definition, marks, with_style=False))  # noqa: S704 - it escapes all that it is given
