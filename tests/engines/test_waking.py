"""When a worker looks for turns."""

from __future__ import annotations

import threading

import pytest

from servers.running import PATIENCE
from spindle.engines.waking import Waking


def looks_after_news(waking: Waking, *, is_waiting: bool) -> bool:
    """Returns if a thread that waits, or comes to wait, looks when there is news."""
    looking = threading.Thread(target=waking.wait, args=("q",), daemon=True)
    if is_waiting:
        looking.start()
    waking.wake("q")
    if not is_waiting:
        looking.start()
    looking.join(PATIENCE)
    return not looking.is_alive()


@pytest.mark.parametrize("is_waiting", [True, False])
@pytest.mark.parametrize("is_busy", [True, False])
def test_news_is_never_lost(monkeypatch: pytest.MonkeyPatch, is_busy: bool, is_waiting: bool) -> None:
    monkeypatch.setattr("spindle.engines.waking.QUIET", 3600.0)
    monkeypatch.setattr("spindle.engines.waking.DEAF", 3600.0)
    waking = Waking(["q"], lambda: is_busy)
    for _ in range(3):
        assert looks_after_news(waking, is_waiting=is_waiting)


def test_a_busy_worker_does_not_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    is_busy = False
    monkeypatch.setattr("spindle.engines.waking.BUSY_GAP", 3600.0)
    waking = Waking(["q"], lambda: is_busy)
    assert looks_after_news(waking, is_waiting=False)
    is_busy = True
    waking.wake("q")
    looking = threading.Thread(target=waking.wait, args=("q",), daemon=True)
    looking.start()
    looking.join(0.1)
    assert looking.is_alive()
    is_busy = False
    waking.wake("q")
    looking.join(PATIENCE)
    assert not looking.is_alive()
