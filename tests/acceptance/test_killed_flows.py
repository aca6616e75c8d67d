"""kill -9 of a process in the middle of a flow, at many places: another process goes on, and the result is
the same as if nothing had happened. What was finished is not done again."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from servers import warm

TOOLS = '''
import os
import signal
import time
from pathlib import Path
from spindle import tool

LOG = Path(os.environ["KILLED_LOG"])
AT = os.environ.get("KILLED_AT", "")


def _note(line: str) -> None:
    """Notes what happens, and ends the process if that is the place for it."""
    with open(LOG, "a") as log:
        log.write(line + "\\n")
        log.flush()
        os.fsync(log.fileno())
    if line == AT:
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)


@tool(read_only=True)
def step(name: str, number: int = 0) -> int:
    """One step of the work. Only reads, so that one in flight may be done again."""
    _note(f"begin {name}")
    _note(f"end {name}")
    return number + 1


@tool(read_only=True)
async def slow(name: str) -> str:
    """A step that ends only if it is cancelled."""
    import asyncio
    _note(f"begin {name}")
    await asyncio.sleep(3600)
    return name
'''

FLOW = """
inputs:
  numbers: {type: array, items: {type: integer}, default: [1, 2, 3, 4, 5, 6]}
nodes:
- {id: begin, tool: step, params: {name: begin}}

# All branches, with several steps each.
- {id: a1, tool: step, params: {name: a1, number: 10}}
- {id: a2, tool: step, params: {name: a2, number: "${a1}"}}
- {id: b1, tool: step, params: {name: b1, number: 20}}
- {id: c1, tool: step, params: {name: c1, number: 30}}
- {id: every, join: all, tool: step, params: {name: every, number: "${a2 + b1 + c1}"}}

# The first of two, of which the other never ends.
- {id: quick, tool: step, params: {name: quick, number: 1}}
- {id: never, tool: slow, params: {name: never}}
- {id: winner, join: any, tool: step, params: {name: winner, number: "${quick}"}}

# Two of three.
- {id: p, tool: step, params: {name: p, number: 1}}
- {id: q, tool: step, params: {name: q, number: 2}}
- {id: r, tool: slow, params: {name: r}}
- {id: two, join: 2, tool: step, params: {name: two, number: "${p + q}"}}

# A loop of two steps, and a batch over a flow of two.
- id: rounds
  loop: {carry: {left: 3, sum: 0}, while: left > 0, limit: 10}
  flow:
    nodes:
    - {id: once, tool: step, params: {name: "round ${left}", number: "${sum}"}}
    - {id: again, tool: step, params: {name: "again ${left}", number: "${once}"}}
    edges: [{from: once, to: again}]
    outputs: {left: "${left - 1}", sum: "${again}"}
- id: each
  batch: {over: "${numbers}", item: n, concurrency: 3, reduce: "${sum(results, item.m)}"}
  flow:
    nodes:
    - {id: first, tool: step, params: {name: "first ${n}", number: "${n}"}}
    - {id: second, tool: step, params: {name: "second ${n}", number: "${first}"}}
    edges: [{from: first, to: second}]
    outputs: {m: {value: "${second}", type: integer}}
- {id: last, tool: step, params: {name: last, number: "${each}"}}
edges:
- {from: begin, to: a1}
- {from: begin, to: b1}
- {from: begin, to: c1}
- {from: a1, to: a2}
- {from: a2, to: every}
- {from: b1, to: every}
- {from: c1, to: every}
- {from: every, to: never}
- {from: every, to: quick}
- {from: quick, to: winner}
- {from: never, to: winner}
- {from: winner, to: r}
- {from: winner, to: p}
- {from: winner, to: q}
- {from: p, to: two}
- {from: q, to: two}
- {from: r, to: two}
- {from: two, to: rounds}
- {from: rounds, to: each}
- {from: each, to: last}
outputs:
  every: ${every}
  winner: ${winner}
  two: ${two}
  rounds: ${rounds.sum}
  each: ${each}
  last: ${last}
"""

RESULT = {"every": 65, "winner": 3, "two": 6, "rounds": 6, "each": 33, "last": 34}

BEFORE = {
    "a2": "a1", "every": "a2", "quick": "every", "winner": "quick", "p": "winner", "q": "winner",
    "two": "p", "round 3": "two", **{f"again {n}": f"round {n}" for n in (1, 2, 3)},
    "round 2": "again 3", "round 1": "again 2", **{f"second {n}": f"first {n}" for n in range(1, 7)},
    **{f"first {n}": "again 1" for n in range(1, 7)}, "last": "second 6", "a1": "begin", "b1": "begin",
    "c1": "begin",
}  # fmt: skip
"""By step, one that must be on record before it can begin."""

PLACES = [
    "begin begin", "end begin", "end a1", "begin a2", "end b1", "end every", "begin never", "end quick",
    "begin winner", "begin r", "end q", "begin two", "begin round 3", "end again 3", "begin round 2",
    "end round 1", "begin first 2", "end first 3", "begin second 4", "end second 6", "begin last", "end last",
]  # fmt: skip


class Killed:
    """A workspace with the flow, and processes that run it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        self.log = folder / "log"
        home = folder / "home"
        for path in (self.folder / "tools", self.folder / "flows", home):
            path.mkdir(parents=True)
        (self.folder / "spindle.toml").touch()
        (self.folder / "tools" / "t.py").write_text(TOOLS)
        (self.folder / "flows" / "work.yaml").write_text(FLOW)
        self._environ = {
            **os.environ, "HOME": str(home), "SPINDLE_HOME": str(home), "SPINDLE_TRUST": "1",
            "KILLED_LOG": str(self.log),
        }  # fmt: skip

    def spindle(self, *words: str, at: str = "") -> subprocess.CompletedProcess[str]:
        """Runs one command as a process of its own."""
        return subprocess.run(
            [warm.SPINDLE, *words], cwd=self.folder, text=True, capture_output=True,
            env={**self._environ, "KILLED_AT": at}, timeout=60, check=False,
        )  # fmt: skip

    def run_id(self) -> str:
        """Returns the id of the one run, whose process is dead: nobody need wait until that is noticed."""
        with sqlite3.connect(self.folder / ".spindle" / "state.db") as store:
            store.execute("UPDATE runs SET lease_until = 0 WHERE lease_until IS NOT NULL")
            ((run,),) = store.execute("SELECT id FROM runs")
        return run

    def lines(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.mark.parametrize("place", PLACES)
def test_a_killed_flow_goes_on_in_another_process_with_the_same_result(place: str, tmp_path: Path) -> None:
    killed = Killed(tmp_path)
    ended = killed.spindle("run", "-q", "work", at=place)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    before = killed.lines()
    assert before[-1] == place or place in before  # branches beside it may have written after it
    run = killed.run_id()
    again = killed.spindle("resume", run)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout) == RESULT

    begun = Counter(line.removeprefix("begin ") for line in killed.lines() if line.startswith("begin "))
    started = {line.removeprefix("begin ") for line in before if line.startswith("begin ")}
    on_record = {BEFORE[name] for name in started if name in BEFORE}
    assert not {name: count for name, count in begun.items() if name in on_record and count > 1}
    assert set(begun) >= {"begin", "every", "winner", "two", "again 1", "second 6", "last"}
    assert max(begun.values()) <= 2


def test_a_flow_that_is_killed_again_and_again_comes_to_its_end(tmp_path: Path) -> None:
    killed = Killed(tmp_path)
    assert killed.spindle("run", "-q", "work", at="begin a1").returncode == -signal.SIGKILL
    run = killed.run_id()
    for place in ("end a2", "begin winner", "end p", "begin again 2", "begin second 1", "end last"):
        assert killed.spindle("resume", run, at=place).returncode == -signal.SIGKILL, place
        assert killed.run_id() == run
    again = killed.spindle("resume", run)
    assert json.loads(again.stdout) == RESULT
    begun = Counter(line for line in killed.lines() if line.startswith("begin "))
    assert begun["begin begin"] == begun["begin every"] == begun["begin two"] == 1
    count = len(killed.lines())  # a run that is done is done
    assert json.loads(killed.spindle("resume", run).stdout) == RESULT
    assert len(killed.lines()) == count


def test_the_same_flow_without_a_kill(tmp_path: Path) -> None:
    killed = Killed(tmp_path)
    done = killed.spindle("run", "-q", "work")
    assert json.loads(done.stdout) == RESULT
    begun = Counter(line for line in killed.lines() if line.startswith("begin "))
    assert set(begun.values()) == {1}
