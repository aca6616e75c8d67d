"""The nodes of a flow and the edges between them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from spindle.flows.definition import ELSE, Edge, FlowDefinition


class Graph:
    """The graph of one flow, without the flows inside it. Edges to unknown nodes are left out."""

    def __init__(self, definition: FlowDefinition) -> None:
        self.ids = tuple(dict.fromkeys(node.id for node in definition.nodes))
        self.edges: dict[str, list[Edge]] = {id: [] for id in self.ids}
        self.incoming: dict[str, list[Edge]] = {id: [] for id in self.ids}
        for edge in definition.edges:
            if edge.source in self.edges and edge.target in self.edges:
                self.edges[edge.source].append(edge)
                self.incoming[edge.target].append(edge)
        choosing = {edge.source for edge in definition.edges if edge.when is not None}
        self.choices: dict[str, list[tuple[int, Edge]]] = {id: [] for id in choosing}
        """By node that has conditions, its edges, each with its place in the definition."""
        for index, edge in enumerate(definition.edges) if choosing else ():
            if edge.source in choosing:
                self.choices[edge.source].append((index, edge))
        self.start = definition.start_id if definition.nodes and definition.start_id in self.edges else None
        order = self._ordered() if self.start is not None else ()
        self.order = {id: number for number, id in enumerate(order)}
        """The nodes that can be reached, numbered, each after those that lead to it, as far as there are no
        loops."""

    @property
    def has_loops(self) -> bool:
        return any(
            self.order[edge.target] <= number for id, number in self.order.items() for edge in self.edges[id]
        )

    def actions(self, id: str) -> set[str]:
        return {edge.action for edge in self.edges[id]}

    def open_actions(self, id: str) -> set[str]:
        """Returns the actions with conditions of which none may hold."""
        with_conditions = {edge.action for edge in self.edges[id] if edge.when is not None}
        return with_conditions - {edge.action for edge in self.edges[id] if edge.when in (None, ELSE)}

    def following(self, id: str) -> dict[str, list[str]]:
        """Returns, by action and condition, the nodes that follow: one, or those of several branches."""
        found: dict[str, list[str]] = {}
        for edge in self.edges[id]:
            if edge.target not in found.setdefault(edge.way, []):
                found[edge.way].append(edge.target)
        return found

    def _ordered(self) -> tuple[str, ...]:
        assert self.start is not None
        finished: list[str] = []
        seen = {self.start}
        waiting: list[tuple[str, Iterator[Edge]]] = [(self.start, iter(self.edges[self.start]))]
        while waiting:
            id, edges = waiting[-1]
            following = next((edge.target for edge in edges if edge.target not in seen), None)
            if following is None:
                finished.append(id)
                waiting.pop()
            else:
                seen.add(following)
                waiting.append((following, iter(self.edges[following])))
        return tuple(reversed(finished))

    def endless(self, ends: Callable[[str], bool]) -> Iterator[list[str]]:
        """Yields loops that the flow can enter and never leave. `ends` says which nodes can be the last."""
        caught = set(self.order) - self._leading_to([id for id in self.order if ends(id)])
        while caught:
            circle = self._circle(next(id for id in self.order if id in caught), caught)
            yield circle
            caught -= self._leading_to(circle)

    def _leading_to(self, targets: Collection[str]) -> set[str]:
        found = set(targets)
        waiting = list(targets)
        while waiting:
            for edge in self.incoming[waiting.pop()]:
                if edge.source not in found:
                    found.add(edge.source)
                    waiting.append(edge.source)
        return found

    def _circle(self, id: str, within: set[str]) -> list[str]:
        path: dict[str, int] = {}
        while id not in path:
            path[id] = len(path)
            id = next(edge.target for edge in self.edges[id] if edge.target in within)
        return list(path)[path[id] :]
