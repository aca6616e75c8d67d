"""The page of complaints: each has a test, and each test that it names exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "why.md"
NAMED = re.compile(r"\[`(test_\w+)`\]\((\.\./tests/[\w/]+\.py)\)")
COMPLAINTS = 15


def _rows() -> list[str]:
    return [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")][1:]


def _tests(file: Path) -> set[str]:
    nodes = ast.walk(ast.parse(file.read_text("utf-8")))
    return {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}


def test_each_complaint_names_a_test() -> None:
    assert len(_rows()) == COMPLAINTS
    assert not [row for row in _rows() if not NAMED.search(row)]


def test_each_test_that_is_named_exists() -> None:
    named = NAMED.findall(PAGE.read_text("utf-8"))
    assert len(named) >= COMPLAINTS
    files = {file: _tests(PAGE.parent / file) for _, file in named}
    assert not [f"{file}: {name}" for name, file in named if name not in files[file]]
