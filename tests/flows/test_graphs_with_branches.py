"""Graphs with branches, joins and loops: they end, what is recorded is what ran, and a run that is killed
comes to the same end when it is resumed."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import spindle
from servers.examples import examples
from spindle import Finished, Paused
from spindle.errors import FlowError
from spindle.flows import Flow, Join, Node, flow_safe
from spindle.flows.node import BaseNode

Counts = dict[str, int]

# --- graphs as data, and the end that they come to, worked out without any flow


@dataclass(frozen=True)
class One:
    """A step. `ends` is False for one that waits until it is cancelled."""

    ends: bool = True

    def end(self, name: str, counts: Counts) -> None:
        counts[name] = counts.get(name, 0) + 1

    def is_stuck(self) -> bool:
        return not self.ends


@dataclass(frozen=True)
class Line:
    parts: tuple[Any, ...]

    def end(self, name: str, counts: Counts) -> None:
        for number, part in enumerate(self.parts):
            part.end(f"{name}{number}", counts)

    def is_stuck(self) -> bool:
        return any(part.is_stuck() for part in self.parts)


@dataclass(frozen=True)
class Parallel:
    """Branches; where one counts, it is the first, and the others wait until they are cancelled."""

    branches: tuple[Any, ...]
    first: bool

    def end(self, name: str, counts: Counts) -> None:
        counts[f"{name}_fork"] = counts.get(f"{name}_fork", 0) + 1
        before = dict(counts)
        for number, branch in enumerate(self.branches[:1] if self.first else self.branches):
            mine = dict(before)
            branch.end(f"{name}{number}", mine)
            counts.update({key: value for key, value in mine.items() if before.get(key) != value})
        counts[f"{name}_join"] = counts.get(f"{name}_join", 0) + 1

    def is_stuck(self) -> bool:
        waited = self.branches[:1] if self.first else self.branches
        return any(branch.is_stuck() for branch in waited)


@dataclass(frozen=True)
class Loop:
    part: Any
    times: int

    def end(self, name: str, counts: Counts) -> None:
        for _ in range(self.times):
            self.part.end(f"{name}i", counts)
            counts[f"{name}_again"] = counts.get(f"{name}_again", 0) + 1

    def is_stuck(self) -> bool:
        return self.part.is_stuck()


STUCK = Line((One(), One(ends=False)))


def wider(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return (
        several.map(Line)
        | several.map(lambda branches: Parallel(branches, first=False))
        | inner.map(lambda branch: Parallel((branch, STUCK), first=True))
        | st.builds(Loop, inner, st.integers(1, 3))
    )


GRAPHS = st.recursive(st.just(One()), wider, max_leaves=8)


# --- the same as flows


@flow_safe
class Step(Node):
    """Counts its visits in the shared store, and writes down that it was there."""

    def __init__(self, name: str, log: list[str], ends: bool = True) -> None:
        super().__init__(id=name)
        self.log = log
        self.ends = ends

    def prep(self, shared: Any) -> int:
        return shared.get(f"at {self.id}", 0) + 1

    async def exec(self, prep_res: Any) -> int:
        self.log.append(str(self.id))
        if not self.ends:
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        return prep_res

    def post(self, shared: Any, prep_res: Any, exec_res: Any) -> str | None:
        shared[f"at {self.id}"] = exec_res
        return None


@flow_safe
class Again(Step):
    def __init__(self, name: str, log: list[str], times: int) -> None:
        super().__init__(name, log)
        self.times = times

    def post(self, shared: Any, prep_res: Any, exec_res: Any) -> str | None:
        super().post(shared, prep_res, exec_res)
        return "again" if exec_res % self.times else None


@flow_safe
class Last(Node):
    def prep(self, shared: Any) -> Counts:
        return {key.removeprefix("at "): value for key, value in shared.items() if key.startswith("at ")}

    def exec(self, prep_res: Any) -> Counts:
        return prep_res


def made(graph: Any, name: str, log: list[str]) -> tuple[BaseNode, BaseNode]:
    """Returns the first and the last node of a part."""
    if isinstance(graph, One):
        step = Step(name, log, graph.ends)
        return step, step
    if isinstance(graph, Line):
        parts = [made(part, f"{name}{number}", log) for number, part in enumerate(graph.parts)]
        for (_, one), (other, _) in itertools.pairwise(parts):
            one >> other
        return parts[0][0], parts[-1][1]
    if isinstance(graph, Loop):
        first, last = made(graph.part, f"{name}i", log)
        again = Again(f"{name}_again", log, graph.times)
        last >> again
        again - "again" >> first
        return first, again
    fork, join = Step(f"{name}_fork", log), Step(f"{name}_join", log)
    join.join = Join("any" if graph.first else "all")
    parts = [made(branch, f"{name}{number}", log) for number, branch in enumerate(graph.branches)]
    fork >> tuple(first for first, _ in parts)
    for _, last in parts:
        last >> join
    return fork, join


def flow_of(graph: Any, log: list[str]) -> Flow:
    first, last = made(graph, "n", log)
    last >> Last(id="last")
    return Flow(first, name="graph")


def expected(graph: Any) -> Counts:
    counts: Counts = {}
    graph.end("n", counts)
    return counts


@given(GRAPHS)
@examples(100)
def test_every_graph_with_branches_comes_to_its_end(graph: Any) -> None:
    log: list[str] = []
    flow = flow_of(graph, log)
    shared: dict[str, Any] = {}
    flow.run(shared)
    assert {
        key.removeprefix("at "): value for key, value in shared.items() if key.startswith("at ")
    } == expected(graph)
    counted = Counter(log)
    assert all(counted[name] >= times for name, times in expected(graph).items())


@given(GRAPHS, st.integers(1, 3))
@examples(60)
def test_every_graph_with_branches_is_stopped_by_its_limit(graph: Any, limit: int) -> None:
    log: list[str] = []
    flow = flow_of(graph, log)
    flow.max_visits = limit
    if max(expected(graph).values()) > limit:
        with pytest.raises(FlowError, match=f"was visited {limit} times"):
            flow.run({})
    else:
        flow.run({})
    assert max(Counter(log).values()) <= max(limit, 1)


# --- killed and resumed


class Killed:
    """A workspace of which every state that is written is kept, as a kill -9 would leave it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.database = root / ".spindle" / "state.db"
        self.states: list[Path] = []
        (root / "spindle.toml").touch()

    def keep(self) -> None:
        path = self.root / f"state-{len(self.states)}"
        with (
            contextlib.closing(sqlite3.connect(self.database)) as live,
            contextlib.closing(sqlite3.connect(path)) as copy,
        ):
            live.backup(copy)
        self.states.append(path)

    @contextlib.asynccontextmanager
    async def opened(self, flow: Flow, *, keeping: bool = False) -> Any:
        async with spindle.open(self.root, flows=[flow]) as app:
            if keeping:
                for name in ("save_run", "save_events", "save_events_at_once"):
                    self._watch(app.store, name)
            yield app

    def _watch(self, store: Any, name: str) -> None:
        real = getattr(store, name)
        if asyncio.iscoroutinefunction(real):

            async def later(*given: Any) -> Any:
                done = await real(*given)
                self.keep()
                return done

            setattr(store, name, later)
            return

        def at_once(*given: Any) -> Any:
            done = real(*given)
            if done:
                self.keep()
            return done

        setattr(store, name, at_once)

    def restore(self, state: Path) -> None:
        """And half a minute passes, after which the process that was killed counts as dead."""
        for ending in ("-wal", "-shm"):
            self.database.with_name(self.database.name + ending).unlink(missing_ok=True)
        shutil.copy(state, self.database)
        with contextlib.closing(sqlite3.connect(self.database)) as database:
            database.execute("UPDATE runs SET lease_until = lease_until - 60")
            database.commit()


def recorded(events: Any) -> Counter[str]:
    return Counter(
        event.node for event in events if not event.node.endswith(".branches") and event.error is None
    )


def finished_steps(state: Path) -> int:
    with contextlib.closing(sqlite3.connect(state)) as database:
        (count,) = database.execute("SELECT count(*) FROM run_events WHERE kind = 'step'").fetchone()
    return count


async def check_every_kill(root: Path, graph: Any, chosen: Any) -> None:
    killed, log = Killed(root), list[str]()
    flow = flow_of(graph, log)
    async with killed.opened(flow, keeping=True) as app:
        outcome = await app.run_flow(flow)
        assert isinstance(outcome, Finished)
        _, _, events = await app.flows.trace(outcome.run_id)
    assert outcome.result.value == expected(graph)
    ran = Counter(log)
    told = recorded(events)
    assert told == Counter(expected(graph)) + Counter(last=1) + Counter(
        {name: count for name, count in told.items() if name not in expected(graph) and name != "last"}
    )
    assert all(ran[name] >= count for name, count in told.items() if name != "last")
    for state in chosen(killed.states):
        killed.restore(state)
        before = finished_steps(state)
        log.clear()
        async with killed.opened(flow) as app:
            again = await app.resume(outcome.run_id)
            assert isinstance(again, Finished)
            _, _, after = await app.flows.trace(outcome.run_id)
        assert again.result.value == outcome.result.value
        # Nothing on record is done again.
        assert len(log) <= sum(ran.values()) - before + sum(name.endswith("1") for name in ran)
        assert {name: told for name, told in recorded(after).items() if name in expected(graph)} == expected(
            graph
        )


@given(GRAPHS, st.data())
@examples(8)
async def test_a_run_that_is_killed_comes_to_the_same_end(
    tmp_path_factory: Any, graph: Any, data: Any
) -> None:
    def some(states: list[Path]) -> Iterator[Path]:
        yield data.draw(st.sampled_from(states))

    await check_every_kill(tmp_path_factory.mktemp("graph"), graph, some)


async def test_a_run_comes_to_the_same_end_wherever_it_is_killed(tmp_path: Path) -> None:
    graph = Loop(
        Parallel(
            (
                Line((One(), Parallel((One(), STUCK), first=True))),
                Parallel((One(), One()), first=False),
            ),
            first=False,
        ),
        2,
    )
    await check_every_kill(tmp_path, graph, lambda states: states)


async def test_a_run_that_waits_in_a_branch_can_be_killed_as_well(tmp_path: Path) -> None:
    from spindle.flows import Ask

    log: list[str] = []
    start, one, two, end = (Step(name, log) for name in ("start", "one", "two", "end"))
    end.join = Join()
    ask = Ask("Go?", id="ask")
    start >> (ask, one)
    one >> two >> end
    ask >> end
    flow = Flow(start, name="graph")
    killed = Killed(tmp_path)
    async with killed.opened(flow, keeping=True) as app:
        paused = await app.run_flow(flow)
        assert isinstance(paused, Paused)
    for state in list(killed.states):
        killed.restore(state)
        async with killed.opened(flow) as app:
            outcome = await app.resume(paused.run_id)
            assert isinstance(outcome, Paused)
            outcome = await app.resume(outcome.pauses[0].token, answer="yes")
        assert isinstance(outcome, Finished)
        assert outcome.result.value == 1
