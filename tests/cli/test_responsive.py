"""The process around a long-lived event loop."""

from __future__ import annotations

import gc
import time

import pytest

from spindle.cli import responsive


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The times at which objects were taken out of the collector's sight."""
    found: list[float] = []
    monkeypatch.setattr(gc, "freeze", lambda: found.append(time.perf_counter()))
    monkeypatch.setattr(gc, "get_freeze_count", lambda: len(found))
    return found


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(responsive.time, "perf_counter", lambda: now[0])
    return now


def collect(noted: responsive._LongCollections, clock: list[float], generation: int, seconds: float) -> None:
    noted("start", {"generation": generation})
    clock[0] += seconds
    noted("stop", {"generation": generation})


def test_survivors_of_a_long_full_collection_are_not_looked_through_again(
    frozen: list[float], clock: list[float]
) -> None:
    noted = responsive._LongCollections()
    collect(noted, clock, 2, 0.005)
    collect(noted, clock, 1, 0.5)
    assert frozen == []
    collect(noted, clock, 2, 0.08)
    assert len(frozen) == 1


def test_that_happens_a_few_times_only_so_that_garbage_does_not_gather(
    frozen: list[float], clock: list[float]
) -> None:
    noted = responsive._LongCollections()
    for _ in range(100):
        collect(noted, clock, 2, 0.08)
    assert len(frozen) == responsive.MAX_FREEZES


def test_what_a_large_document_has_brought_back_into_sight_is_taken_out_again(
    frozen: list[float], clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = responsive._LongCollections()
    for _ in range(100):
        collect(noted, clock, 2, 0.08)
    monkeypatch.setattr(gc, "get_freeze_count", lambda: 0)
    collect(noted, clock, 2, 0.08)
    assert len(frozen) == responsive.MAX_FREEZES + 1
