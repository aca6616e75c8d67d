"""Finds the place where branches meet: the nodes of each branch of a fork, and the one that joins them.

Several edges for one action are a fork: each of them begins a branch. A branch goes on until an edge leads to
a node that says `join`, and no node belongs to two branches: so each node is visited by one branch at a time,
in the same order whenever the run is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

MAX_BRANCHES: Final = 1000
"""Of one fork."""
MAX_NESTED: Final = 20
"""Forks in branches of forks."""


class TangledError(ValueError):
    """Branches that do not come together in one place. `at` is the node where that shows."""

    def __init__(self, message: str, at: Hashable, hint: str | None = None) -> None:
        super().__init__(message)
        self.at = at
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Meeting(Generic[K]):
    """The branches of one fork, in the order of its edges."""

    join: K | None
    """None: each of them ends by itself."""
    regions: tuple[frozenset[K], ...]
    """The nodes of each branch."""
    reaching: tuple[bool, ...]
    """True for those that can come to the join."""

    @property
    def nodes(self) -> frozenset[K]:
        return frozenset[K]().union(*self.regions)


class Ways(Generic[K]):
    """A graph as its forks see it. `following` gives, by action, the nodes that follow one; `is_join` says
    where branches meet; `name` calls a node as messages do."""

    def __init__(
        self,
        following: Callable[[K], Iterable[Sequence[K]]],
        is_join: Callable[[K], bool],
        name: Callable[[K], str],
    ) -> None:
        self._following = following
        self._is_join = is_join
        self._name = name
        self._known: dict[tuple[K, ...], Meeting[K] | None] = {}
        """By the first nodes of a fork's branches; None while it is being looked at."""

    def meeting(self, source: K, targets: Sequence[K], depth: int = 0) -> Meeting[K]:
        """Returns where the branches of a fork meet. Raises TangledError."""
        branches = tuple(targets)
        if (known := self._known.get(branches)) is not None:
            return known
        if branches in self._known:
            raise TangledError(
                f"a branch of {self._name(source)} leads back to it before the branches have met",
                source,
                "let the way back begin at the node where they meet",
            )
        if len(targets) > MAX_BRANCHES or depth > MAX_NESTED:
            what = f"{len(targets)} branches" if depth <= MAX_NESTED else f"forks {depth} deep"
            limit = MAX_BRANCHES if depth <= MAX_NESTED else MAX_NESTED
            raise TangledError(f"{self._name(source)} has {what}, and at most {limit} are allowed", source)
        self._known[branches] = None
        try:
            found = self._known[branches] = self._meeting(source, targets, depth)
        finally:
            if self._known[branches] is None:
                del self._known[branches]
        return found

    def _meeting(self, source: K, targets: Sequence[K], depth: int) -> Meeting[K]:
        regions: list[frozenset[K]] = []
        reaching: list[bool] = []
        joins: dict[K, K] = {}
        taken: dict[K, K] = {}
        for target in targets:
            region, reached = self._region(source, target, depth)
            for node in region:
                if node in taken:
                    raise TangledError(
                        f"the branches {self._name(taken[node])} and {self._name(target)} of "
                        f"{self._name(source)} both lead to {self._name(self._first(node, taken, region))}, "
                        "which does not say `join`",
                        self._first(node, taken, region),
                        "let it wait for them with `join: all`, `any` or a number",
                    )
            taken |= dict.fromkeys(region, target)
            joins |= dict.fromkeys(reached, target)
            regions.append(region)
            reaching.append(bool(reached))
        if len(joins) > 1:
            one, other = sorted(self._name(join) for join in list(joins)[:2])
            raise TangledError(
                f"the branches of {self._name(source)} meet at {one} and at {other}",
                source,
                "all branches of a fork meet at one node; a flow inside a node has its own",
            )
        return Meeting(next(iter(joins), None), tuple(regions), tuple(reaching))

    def _first(self, node: K, taken: dict[K, K], region: frozenset[K]) -> K:
        """Returns the node at which two branches come together: one of the shared ones that another way leads
        to from outside of them."""
        shared = {other for other in region if other in taken}
        for other in (*taken, *region):
            if other not in shared:
                for targets in self._following(other):
                    for target in targets:
                        if target in shared:
                            return target
        return node

    def _region(self, source: K, start: K, depth: int) -> tuple[frozenset[K], dict[K, None]]:
        if self._is_join(start):
            raise TangledError(
                f"a branch of {self._name(source)} leads straight to {self._name(start)}, where it ends",
                source,
                "leave this edge out, or put a node between",
            )
        found: dict[K, None] = {start: None}
        reached: dict[K, None] = {}
        waiting = [start]
        while waiting:
            here = waiting.pop()
            for targets in self._following(here):
                following = targets
                if len(targets) > 1:
                    inner = self.meeting(here, targets, depth + 1)
                    found |= dict.fromkeys(inner.nodes)
                    following = [] if inner.join is None else [inner.join]
                elif targets and self._is_join(targets[0]):
                    reached[targets[0]] = None
                    continue
                for node in following:
                    if node not in found:
                        found[node] = None
                        waiting.append(node)
        return frozenset(found), reached
