"""`make corpus`: imports thousands of public OpenAPI documents, and calls operations of some at random.

Each document must become a source, or be refused for a fault of its own that known.toml states; each call
must arrive as the document says, which openapi-core checks. Ends with 1 where that is not so.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import resource
import sys
import time
import tomllib
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from importing import MOST_TRIED, ImportedDocument, import_document, limit_memory

HERE = Path(__file__).parent
PER_PROCESS = 40
"""Documents that one process reads before another takes its place, so that what it holds is freed."""
SHOWN = 12


def main(words: list[str]) -> int:
    asked = _options(words)
    folder: Path = asked.folder.resolve()
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.json"))
    if not names:
        sys.exit(f"there are no documents below {folder}")
    known = tomllib.loads(asked.known.read_text())
    faults: list[str] = []
    found: list[ImportedDocument] = []
    if not asked.only_calls:
        found = _import_all(folder, names, asked)
        faults += _tell_imports(found, known)
    if asked.calls:
        seen = {f"{line}.json" for line in asked.seen.read_text().split()} if asked.seen else set[str]()
        refused = {outcome.name for outcome in found if outcome.refused} | set(known["refused"])
        unseen = [name for name in names if name not in seen | refused]
        faults += _call(folder, unseen, known, asked)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    print(f"\nThe largest process took {peak} MB.")
    for fault in faults:
        print(f"FAULT: {fault}")
    print("No fault of ours." if not faults else f"{len(faults)} faults.")
    return 1 if faults else 0


def _options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make corpus ARGS=…", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("folder", type=Path, help="the folder with the documents")
    parser.add_argument("--calls", type=int, default=600, help="calls to make; 0 for none")
    parser.add_argument("--seed", type=int, default=16, help="another one takes other operations and values")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--known", type=Path, default=HERE / "known.toml", help="documents with known faults")
    parser.add_argument("--seen", type=Path, help="a list of documents that no call is made for")
    parser.add_argument("--only-calls", action="store_true", help="import only what is called")
    return parser.parse_args(words)


# --- importing


def _import_all(folder: Path, names: list[str], asked: argparse.Namespace) -> list[ImportedDocument]:
    # The largest first, so that nobody waits for one at the end.
    ordered = sorted(names, key=lambda name: -(folder / name).stat().st_size)
    tasks = [(folder, name, asked.seed) for name in ordered]
    started = time.perf_counter()
    done: list[ImportedDocument] = []
    for (_, name, _), outcome in in_processes(import_document, tasks, asked.processes):
        done.append(outcome or ImportedDocument(name, refused="crashed: it ended the process"))
        _progress(len(done), len(names), started)
    print(f"\nImported in {time.perf_counter() - started:.0f} s with {asked.processes} processes.")
    return done


def _tell_imports(found: list[ImportedDocument], known: dict[str, Any]) -> list[str]:
    refused = [outcome for outcome in found if outcome.refused is not None]
    took = [outcome for outcome in found if outcome.refused is None]
    tools = sum(outcome.tools for outcome in took)
    left_out = [(outcome.name, *item) for outcome in took for item in outcome.left_out]
    uncallable = [(outcome.name, *item) for outcome in took for item in outcome.uncallable]
    print(f"{len(found)} documents: {len(took)} imported, {len(refused)} refused.")
    print(f"{tools} operations are tools, {len(left_out)} are left out.")
    hashes = sum(outcome.fragments for outcome in took)
    holders = sum(1 for outcome in took if outcome.fragments)
    print(f"{hashes} of them have a `#` in their path, in {holders} documents.")
    tried, unfilled = sum(outcome.tried for outcome in took), sum(outcome.unfilled for outcome in took)
    print(
        f"Of {tried}, up to {MOST_TRIED} of a document, {tried - unfilled - len(uncallable)} made a request;"
    )
    print(f"for {unfilled} no arguments were found.")
    print(f"{sum(outcome.raised for outcome in took)} documents needed higher limits than usual.")
    slowest = sorted(found, key=lambda outcome: -outcome.seconds)[:3]
    print("Slowest:", ", ".join(f"{outcome.name} ({outcome.seconds:.1f} s)" for outcome in slowest))
    _tell("Refused", ((outcome.name, outcome.refused or "") for outcome in refused))
    _tell("Left out", ((name, reason) for name, _, reason in left_out))
    faults = [f"{name}: the request of {tool} could not be made: {why}" for name, tool, why in uncallable]
    for outcome in refused:
        fault = known["refused"].get(outcome.name)
        if fault is None or fault["says"] not in (outcome.refused or ""):
            faults.append(f"{outcome.name} is refused, which known.toml does not state: {outcome.refused}")
    for name, tool, reason in left_out:
        if not any(fault in reason for fault in known["left_out"]):
            faults.append(f"{name}: {tool} is left out, for no fault of the document: {reason}")
    taken = {outcome.name for outcome in took}
    faults += [
        f"{name} is refused no more: take it out of known.toml" for name in known["refused"] if name in taken
    ]
    return faults


def _tell(what: str, items: Iterable[tuple[str, str]]) -> None:
    """Prints reasons with how often they were given, and by what."""
    grouped: dict[str, list[str]] = defaultdict(list)
    for name, reason in items:
        grouped[_kind_of(reason)].append(name)
    if grouped:
        print(f"\n{what}:")
    for reason, names in sorted(grouped.items(), key=lambda item: -len(item[1])):
        counted = Counter(names)
        shown = ", ".join(list(counted)[:3]) + (", …" if len(counted) > 3 else "")
        print(f"  {len(names):5}  {reason}  ({len(counted)} documents: {shown})")


def _kind_of(reason: str) -> str:
    """A reason without what differs from document to document."""
    plain = re.sub(r"^\S+\.json(, line \d+)?: ", "", reason)
    return re.sub(r"'[^']*'", "…", plain)[:160]


# --- calling


def _call(folder: Path, names: list[str], known: dict[str, Any], asked: argparse.Namespace) -> list[str]:
    from calling import CalledOperation, call_operation

    chosen = random.Random(asked.seed).sample(names, len(names))  # noqa: S311 - repeatable on purpose
    started = time.perf_counter()
    made: list[CalledOperation] = []
    passed: list[CalledOperation] = []
    tasks = ((folder, name, asked.seed + number) for number, name in enumerate(_repeated(chosen)))
    print(f"\nCalling {asked.calls} operations of {len(names)} documents, chosen with seed {asked.seed}.")
    for (_, name, _), outcome in in_processes(call_operation, tasks, asked.processes):
        outcome = outcome or CalledOperation(name, fault="crashed: it ended the process")
        (passed if outcome.passed_over else made).append(outcome)
        _progress(len(made), asked.calls, started)
        if len(made) >= asked.calls or len(passed) > 5 * asked.calls:
            break
    excused: list[tuple[CalledOperation, str]] = []
    faults: list[str] = []
    for outcome in made:
        if outcome.fault is None:
            continue
        fault = outcome.fault.lower()
        excuses = (item for item in known["excuses"] if all(part.lower() in fault for part in item["says"]))
        excuse = next(excuses, None)
        if excuse is not None:
            excused.append((outcome, excuse["why"]))
        else:
            faults.append(f"{outcome.name} {outcome.tool}: {outcome.fault}")
    fine = len(made) - len(excused) - len(faults)
    print(f"\n{len(made)} calls in {time.perf_counter() - started:.0f} s.")
    print(f"{fine} arrived as their document says.")
    print(f"{len(excused)} did not, for a fault of the document or the validator; {len(faults)} for ours.")
    _tell("Not ours", ((outcome.name, why) for outcome, why in excused))
    _tell("Not called", ((outcome.name, outcome.passed_over or "") for outcome in passed))
    if len(made) < asked.calls:
        faults.append(f"only {len(made)} of {asked.calls} calls could be made")
    return faults


def _repeated(names: list[str]) -> Iterator[str]:
    while names:
        yield from names


# --- processes


def in_processes(work: Any, tasks: Iterable[tuple[Any, ...]], processes: int) -> Iterator[tuple[Any, Any]]:
    """Yields each task with what `work` made of it, in their order; None for one that ended its process."""
    waiting = iter(tasks)
    pool = _pool(processes)
    running: deque[tuple[Any, Any]] = deque()
    try:
        while True:
            while len(running) < processes * 8 and (task := next(waiting, None)) is not None:
                running.append((task, pool.submit(work, *task)))
            if not running:
                return
            task, future = running.popleft()
            try:
                yield task, future.result()
            except BrokenProcessPool:
                # Whoever else was running is tried again, alone.
                pool.shutdown(cancel_futures=True)
                pool = _pool(processes)
                for other in [task, *(other for other, _ in running)]:
                    yield other, _alone(work, other)
                running.clear()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _alone(work: Any, task: tuple[Any, ...]) -> Any:
    with _pool(1) as pool:
        try:
            return pool.submit(work, *task).result()
        except BrokenProcessPool:
            return None


def _pool(processes: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(
        processes,
        mp_context=get_context("spawn"),
        initializer=limit_memory,
        max_tasks_per_child=PER_PROCESS,
    )


def _progress(done: int, of: int, started: float) -> None:
    if sys.stderr.isatty() or done % 200 == 0:
        end = "\r" if sys.stderr.isatty() else "\n"
        print(f"{done} of {of}, {time.perf_counter() - started:.0f} s", end=end, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
