"""The examples of a page: found in its text, run in order, compared with what it shows."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^```(?P<language>\w+)(?P<options>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
# What a page shows as it once was, and what is otherwise each time.
LIVE = re.compile(r"(?P<home>/home/ada(?=/))|(?P<duration>\b\d+\.\d+ s\b)|(?P<id>\b(?=\w*\d)[0-9a-f]{8}\b)")
ANY = {"home": r"(?:/[\w.-]+)+", "duration": r"\d+(?:\.\d+)?\s+m?s", "id": r"[0-9a-f]{8}"}
# Runs a script that may use `await` at its top level, as the shortest examples do.
RUNNER = """
import ast, asyncio, inspect, sys
code = compile(sys.argv[1], "example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
done = eval(code, {"__name__": "__main__"})
if inspect.iscoroutine(done):
    asyncio.run(done)
"""


@dataclass
class Example:
    """A fenced block of a page."""

    language: str
    options: dict[str, str]
    body: str
    line: int


def examples(page: Path) -> list[Example]:
    """The fenced blocks of a page, in order."""
    text = page.read_text("utf-8")
    found = []
    for match in FENCE.finditer(text):
        options = dict(part.split("=", 1) for part in match["options"].split())
        line = text.count("\n", 0, match.start()) + 1
        found.append(Example(match["language"], options, match["body"], line))
    return found


def run_page(page: Path, workspace: Path, environment: Mapping[str, str], python: Sequence[str]) -> int:
    """Runs the examples of a page in a folder and returns how many there were."""
    ran = 0
    printed = ""
    for example in examples(page):
        if "file" in example.options:
            target = workspace / example.options["file"]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(example.body)
        elif example.language == "console":
            run_console(example, workspace, environment, page)
            ran += 1
        elif example.language == "python":
            printed = run_python(example, workspace, environment, page, python)
            ran += 1
        elif example.language == "output":
            assert fits(example.body, printed), f"{page.name}:{example.line}\ngot:\n{printed}"
    return ran


def run_python(
    example: Example, workspace: Path, environment: Mapping[str, str], page: Path, python: Sequence[str]
) -> str:
    """Runs a block of Python and returns what it printed."""
    done = subprocess.run(
        [*python, "-W", "error", "-c", RUNNER, example.body],
        cwd=workspace, env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, f"{page.name}:{example.line}\n{done.stderr}"
    return done.stdout


def run_console(example: Example, workspace: Path, environment: Mapping[str, str], page: Path) -> None:
    """Types the commands of a block, and compares what they show with what the page shows."""
    steps = re.split(r"^\$ ", example.body, flags=re.MULTILINE)[1:]
    folder = workspace
    for step in steps:
        command, _, expected = step.partition("\n")
        where = f"{page.name}:{example.line}: {command}"
        changed = re.search(r"(?:^|&& )cd (\S+)$", command)
        done = subprocess.run(
            ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, timeout=60
        )
        if changed:
            folder = folder / changed[1]
        shown = done.stdout + done.stderr
        assert done.returncode == int(example.options.get("exit", 0)), f"{where}\n{shown}"
        if expected.strip():
            assert fits(expected, shown), f"{where}\nexpected:\n{expected}\ngot:\n{shown}"


def fits(expected: str, shown: str) -> bool:
    """True if the text is what a page shows: `…` stands for any text; a home folder, a duration and the id of
    a call for any other of its kind; runs of spaces are alike."""
    pieces = [LIVE.sub(any_like, " ".join(piece.split())) for piece in expected.strip().split("…")]
    pieces = [re.escape(piece).replace(r"\ ", r"\s+") for piece in pieces]
    pieces = [re.sub("<(home|duration|id)>", lambda kind: ANY[kind[1]], piece) for piece in pieces]
    pattern = r"\s*" + r"(?:.|\n)*?".join(f"\\s*{piece}\\s*" if piece else "" for piece in pieces) + r"\s*"
    return re.fullmatch(pattern, shown) is not None


def any_like(shown: re.Match[str]) -> str:
    """The kind of what is otherwise each time, as a mark."""
    return f"<{shown.lastgroup}>"
