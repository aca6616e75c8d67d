"""A plugin for pytest: the fixture `taped`. Name it in a `conftest.py`: `pytest_plugins =
["spindle.testing.tapes"]`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spindle.opening import Opening, open

FOLDER = "tapes"
"""Beside the file of a test, the folder of its tapes."""
OPTION = "--record-tapes"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option that records all tapes anew."""
    parser.addoption(OPTION, action="store_true", help="record the tapes of Spindle's calls anew")


class Taped:
    """Opens workspaces for one test with its tape, and knows what was not on it."""

    def __init__(self, tape: Path, *, anew: bool) -> None:
        self.tape = tape
        """The file: `tapes/MODULE/TEST.jsonl` beside the test's own."""
        self._mode = "record" if anew else "replay" if os.environ.get("CI") else "once"
        self._missed: list[Callable[[], list[str]]] = []

    def __call__(self, path: Path | str | None = None, **options: Any) -> Opening:
        """Opens a workspace as `spindle.open` does. Its calls are recorded the first time, and later come
        from the tape; in CI nothing is recorded."""
        given: dict[str, Any] = {**options, self._mode: self.tape}
        opening = open(path, **given)
        self._missed.append(lambda: opening.missed)
        return opening

    @property
    def missed(self) -> list[str]:
        """Says in words which calls were asked for in vain."""
        return [text for missed in self._missed for text in missed()]


@pytest.fixture
def taped(request: pytest.FixtureRequest) -> Iterator[Taped]:
    """Opens workspaces whose calls are recorded once. The test fails if it asks for what is not on its
    tape, also where a model or a flow went on without it."""
    name = re.sub(r"[^\w.-]+", "-", request.node.name).strip("-")
    tape = request.path.parent / FOLDER / request.path.stem / f"{name}.jsonl"
    made = Taped(tape, anew=bool(request.config.getoption(OPTION)))
    yield made
    if made.missed:
        pytest.fail("\n".join([f"these are not on the tape; {OPTION} records it anew:", *made.missed]))
