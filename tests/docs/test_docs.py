"""Every example in the README and in docs/ is run, in order, in a workspace of its own."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from servers import warm

ROOT = Path(__file__).parent.parent.parent
DRAWERS = ("start", "how-to", "reference")
PAGES = sorted(
    [ROOT / "README.md", *(page for name in DRAWERS for page in (ROOT / "docs" / name).glob("*.md"))]
)
WITHOUT_EXAMPLES = {"api.md", "glossary.md"}
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
    language: str
    options: dict[str, str]
    body: str
    line: int


def examples(page: Path) -> list[Example]:
    text = page.read_text("utf-8")
    found = []
    for match in FENCE.finditer(text):
        options = dict(part.split("=", 1) for part in match["options"].split())
        line = text.count("\n", 0, match.start()) + 1
        found.append(Example(match["language"], options, match["body"], line))
    return found


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "home").mkdir()
    scripts = Path(sys.executable).parent
    return {
        **{key: value for key, value in os.environ.items() if not key.startswith("SPINDLE_")},
        "PATH": os.pathsep.join([str(warm.FOLDER), str(scripts), os.environ["PATH"]]),
        "SPINDLE_HOME": str(tmp_path / "home"),
        "NO_COLOR": "1",
        "COLUMNS": "120",
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_of_a_page_do_what_it_says(
    page: Path, tmp_path: Path, environment: dict[str, str], request: pytest.FixtureRequest
) -> None:
    if "DATABASE_URL" in page.read_text("utf-8"):
        environment["DATABASE_URL"] = request.getfixturevalue("postgres_url")
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "spindle.toml").write_text("")
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
            printed = run_python(example, workspace, environment, page)
            ran += 1
        elif example.language == "output":
            assert fits(example.body, printed), f"{page.name}:{example.line}\ngot:\n{printed}"
    assert ran or page.name in WITHOUT_EXAMPLES, f"{page.name} shows nothing that can be run"


def run_python(example: Example, workspace: Path, environment: dict[str, str], page: Path) -> str:
    done = subprocess.run(
        [warm.PYTHON, "-W", "error", "-c", RUNNER, example.body],
        cwd=workspace, env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, f"{page.name}:{example.line}\n{done.stderr}"
    return done.stdout


def run_console(example: Example, workspace: Path, environment: dict[str, str], page: Path) -> None:
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
    return f"<{shown.lastgroup}>"


def test_an_example_that_shows_something_else_is_noticed() -> None:
    assert fits("time.a  …\n", "time.a   Tells the time\n")
    assert not fits("time.b  …\n", "time.a   Tells the time\n")
    assert not fits("18.0", "18.01")
    assert fits("made /home/ada/shop in 0.7 s, 01316a76", "made /tmp/x-1/shop in 12 ms, abcdef12")
    assert not fits("made /home/ada/shop", "made /tmp/x/store")
    assert not fits("0.7 s", "soon")
