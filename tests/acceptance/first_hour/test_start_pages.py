"""What the first pages tell a newcomer to type works where only what they name is installed."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from servers.pages import examples, run_page

ROOT = Path(__file__).parents[3]
START_PAGES = (ROOT / "README.md", *sorted((ROOT / "docs" / "start").glob("*.md")))


def install_line(page: Path) -> list[str]:
    """The packages that a page tells its reader to install, with this repository for what is not released."""
    (line,) = [block.body for block in examples(page) if block.language == "sh"]
    words = shlex.split(line)
    assert words[:2] == ["pip", "install"], f"{page.name} does not begin with an installation: {line}"
    return [str(ROOT) if word == "spindle-tools" else word for word in words[2:]]


@pytest.fixture(scope="session")
def machines() -> dict[tuple[str, ...], Path]:
    """The folders of environments that were installed, by what is in them."""
    return {}


@pytest.fixture
def bare(
    page: Path,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    machines: dict[tuple[str, ...], Path],
) -> dict[str, str]:
    """The variables of somebody who installed what the page says, and has the system's programs besides."""
    packages = tuple(install_line(page))
    if packages not in machines:
        machine = tmp_path_factory.mktemp("machine")
        venv.create(machine, symlinks=True)
        install = [sys.executable, str(ROOT / "scripts" / "install.py"), str(machine)]
        subprocess.run([*install, "-c", str(ROOT / "constraints.txt"), *packages], check=True)
        machines[packages] = machine
    home = tmp_path / "home"
    home.mkdir()
    path = [str(machines[packages] / "bin"), "/usr/bin", "/bin"]
    return {"HOME": str(home), "PATH": os.pathsep.join(path), "LANG": "C.UTF-8", "COLUMNS": "120"}


@pytest.mark.parametrize("page", START_PAGES, ids=lambda page: page.name)
def test_the_lines_of_a_first_page_work_on_a_bare_machine(
    page: Path, bare: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    assert run_page(page, folder, bare, ["python"])
