"""What the attacks share: how long a long one may take, and the figures that `make soak` prints."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

_LONG_TESTS = pytest.StashKey[int]()
_FIGURES = pytest.StashKey[list[str]]()

Figures = Callable[[str], None]


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_FIGURES] = []


def pytest_collection_finish(session: pytest.Session) -> None:
    session.config.stash[_LONG_TESTS] = sum(
        item.get_closest_marker("soak") is not None for item in session.items
    )


@pytest.fixture
def seconds(request: pytest.FixtureRequest) -> float:
    """This test's share of the length of `make soak`."""
    minutes = float(os.environ.get("SOAK_MINUTES", "10"))
    return minutes * 60 / max(1, request.config.stash[_LONG_TESTS])


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> Figures:
    """`figures("p99 of valid calls: 3.1 ms")`: a line of the summary at the end."""
    lines = request.config.stash[_FIGURES]

    def note(line: str) -> None:
        lines.append(f"{request.node.name}: {line}")

    return note


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if lines := config.stash[_FIGURES]:
        terminalreporter.section("figures")
        for line in lines:
            terminalreporter.write_line(line)
