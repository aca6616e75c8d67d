"""Whoever follows a hint gets Spindle: the name of the distribution is not the name of the package."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
# `pip install spindle…`, quoted or not, and `spindle…[extra]` wherever it stands.
NAMED = re.compile(
    r"""pip\ install\ ["']?(spindle[\w.-]*)(?:\[([^\]]*)\])?   # as a command
    |(?<![\w.`/])(spindle[\w-]*)\[([a-z][a-z,]*)\]             # as a requirement
    """,
    re.VERBOSE,
)


def texts() -> list[Path]:
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "integrations" / "knime" / "env.yml"]
    for folder, pattern in (
        ("src", "*.py"),
        ("docs", "*.md"),
        ("examples", "*.md"),
        ("integrations", "*.md"),
    ):
        found += [path for path in (ROOT / folder).rglob(pattern) if "node_modules" not in path.parts]
    return sorted(found)


def hints(text: str) -> list[tuple[str, list[str]]]:
    found = []
    for command, extras, requirement, its_extras in NAMED.findall(text):
        named = [extra for extra in (extras or its_extras).split(",") if extra]
        found.append((command or requirement, named))
    return found


def test_every_hint_names_the_distribution_and_an_extra_that_it_has() -> None:
    known = PROJECT["optional-dependencies"]
    wrong = [
        f"{path.relative_to(ROOT)}: {name}{extras or ''}"
        for path in texts()
        for name, extras in hints(path.read_text("utf-8"))
        if name != PROJECT["name"] or not all("{" in extra or extra in known for extra in extras)
    ]
    assert not wrong


def test_a_hint_that_names_another_distribution_is_noticed() -> None:
    assert hints("pip install spindle fastapi") == [("spindle", [])]
    assert hints("pip install 'spindle-tools[agent,table]'") == [("spindle-tools", ["agent", "table"])]
    assert hints("- spindle[table]\n") == [("spindle", ["table"])]
