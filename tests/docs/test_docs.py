"""Every example in docs/ is run, in order, in a workspace of its own.

Those of the README and of docs/start/ are run where nothing else is installed: tests/acceptance/first_hour/.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from servers import warm
from servers.pages import fits, run_page

ROOT = Path(__file__).parent.parent.parent
DRAWERS = ("how-to", "coming-from", "reference")
PAGES = sorted(page for name in (".", *DRAWERS) for page in (ROOT / "docs" / name).glob("*.md"))
WITHOUT_EXAMPLES = {"api.md", "glossary.md", "why.md"}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "home").mkdir()
    scripts = Path(sys.executable).parent
    return {
        **{key: value for key, value in os.environ.items() if not key.startswith(("SPINDLE_", "XDG_"))},
        "PATH": os.pathsep.join([str(warm.FOLDER), str(scripts), os.environ["PATH"]]),
        "HOME": str(tmp_path / "home"),
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
    # It is the reader's own, and so are all further edits.
    subprocess.run([warm.SPINDLE, "trust", "--yes"], cwd=workspace, env=environment, check=True)
    try:
        ran = run_page(page, workspace, environment, [warm.PYTHON])
    finally:
        if "spindle up" in page.read_text("utf-8"):  # one that failed has left it running
            subprocess.run([warm.SPINDLE, "down"], cwd=workspace, env=environment, check=True)
    assert ran or page.name in WITHOUT_EXAMPLES, f"{page.name} shows nothing that can be run"


def test_an_example_that_shows_something_else_is_noticed() -> None:
    assert fits("time.a  …\n", "time.a   Tells the time\n")
    assert not fits("time.b  …\n", "time.a   Tells the time\n")
    assert not fits("18.0", "18.01")
    assert fits("made /home/ada/shop in 0.7 s, 01316a76", "made /tmp/x-1/shop in 12 ms, abcdef12")
    assert not fits("made /home/ada/shop", "made /tmp/x/store")
    assert not fits("0.7 s", "soon")
