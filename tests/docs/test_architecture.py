"""The map in ARCHITECTURE.md is that of the code, and every decision and dependency has its page."""

import ast
import configparser
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

from spindle.plugins import BUILT_IN

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "src" / "spindle"
PAGE = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
DECISIONS = ROOT / "docs" / "decisions"
# What `spindle new` copies is no part of the program.
TEMPLATES = PACKAGE / "cli" / "templates"


def block(heading: str) -> list[str]:
    """Returns the lines of the first fenced block below a heading."""
    section = PAGE.split(f"\n## {heading}\n", 1)[1]
    return section.split("```\n", 2)[1].splitlines()


def drawn() -> set[str]:
    """Returns the paths that the layout names: folders with a slash at the end, and modules."""
    paths: set[str] = set()
    above: list[str] = []
    for line in block("Layout")[1:]:
        match = re.match(r"( +)([\w.]+/?) +\S", line)
        assert match, f"not a line of the layout: {line!r}"
        depth = len(match[1]) // 2 - 1
        above = [*above[:depth], match[2]]
        assert len(above) == depth + 1, f"too deep: {line!r}"
        paths.add("".join(above))
    return paths


def test_the_layout_names_every_package_and_every_top_level_file() -> None:
    packages = {
        f"{path.parent.relative_to(PACKAGE)}/"
        for path in PACKAGE.rglob("*.py")
        if path.parent != PACKAGE and not path.is_relative_to(TEMPLATES)
    }
    unnamed = {"__init__.py", "__main__.py", "py.typed"}
    files = {path.name for path in PACKAGE.iterdir() if path.is_file() and path.name not in unnamed}
    assert drawn() == packages | files


def test_the_layers_are_those_that_are_enforced() -> None:
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter")
    enforced = contracts["importlinter:contract:layers"]["layers"].strip().splitlines()
    there = [re.findall(r"(?<!\()\b\w+\b(?!\))", layer) for layer in enforced]
    assert [re.findall(r"\w+", line) for line in block("Layers")] == [names for names in there if names]


def test_every_kind_of_source_is_kept_apart_from_the_others() -> None:
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter")
    apart = contracts["importlinter:contract:kinds"]["modules"].split()
    assert sorted(apart) == sorted({path.partition(":")[0] for path in BUILT_IN.values()})


def test_modules_that_the_map_and_the_decisions_name_exist() -> None:
    missing = []
    for page in [ROOT / "ARCHITECTURE.md", *DECISIONS.glob("*.md")]:
        for name in re.findall(r"`([a-z_]+(?:/[a-z_0-9]+)*/?(?:\.py)?)`", page.read_text("utf-8")):
            if "/" not in name:
                continue
            places = [where / name.removesuffix(".py") for where in (PACKAGE, ROOT)]
            if not any(place.is_dir() or place.with_suffix(".py").is_file() for place in places):
                missing.append(f"{page.name}: {name}")
    workspace = {"tools/", "flows/", "mods/", "events/"}
    assert not [name for name in missing if name.split(": ")[1] not in workspace]


def test_the_map_stays_a_map() -> None:
    assert len(PAGE.encode()) <= 10 * 1024


def test_every_decision_is_in_the_index_under_its_own_title() -> None:
    index = (DECISIONS / "index.md").read_text("utf-8")
    listed = re.findall(r"^- \[(.+)\]\(((\d+)-[\w-]+\.md)\)$", index, re.MULTILINE)
    pages = {page.name: page.read_text("utf-8").splitlines()[0] for page in DECISIONS.glob("[0-9]*.md")}
    assert {name: f"# {title}" for title, name, _ in listed} == pages
    numbers = [number for *_, number in listed]
    assert len(numbers) == len(set(numbers)) == len(pages)


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    needed = {
        name_of(line) for line in [*project["dependencies"], *(it for them in extras.values() for it in them)]
    }
    page = (DECISIONS / "dependencies.md").read_text("utf-8")
    rows = [line.split("|") for line in page.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`([\w-]+)`", row[1])} == needed
    named = {extra for row in rows if len(row) == 5 for extra in re.findall(r"`([\w-]+)`", row[2])}
    assert named == set(extras)


BROUGHT_BY_USERS = {"fastapi", "langchain-core", "langgraph", "openai-agents", "pytest"}
"""What only an adapter or a plugin imports, for a program that has it anyway."""
CLIENTS_OF_BROKERS = {"aio-pika", "confluent-kafka", "nats-py", "redis", "zmqtt"}
"""Come with an extra of `faststream`, each with its broker."""


def test_nothing_is_imported_that_only_comes_with_something_else() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    named = {
        name_of(line).lower() for line in [*project["dependencies"], *(it for them in extras for it in them)]
    }
    imported: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        if TEMPLATES not in path.parents:
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Import):
                    imported |= {alias.name.partition(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    imported.add(node.module.partition(".")[0])
    imported -= sys.stdlib_module_names | {"spindle", "_typeshed"}
    brought = packages_distributions()
    found = {
        module: {name.lower().replace("_", "-") for name in brought[module]}
        for module in imported
        if module in brought
    }
    assert "pydantic" in found
    checked = tomllib.loads((ROOT / "requirements/parts.toml").read_text("utf-8"))["check"]["packages"]
    unseen = {name for names in found.values() for name in names & BROUGHT_BY_USERS} - set(checked)
    assert not unseen, "`make check` on a fresh machine does not know their types"
    known = named | BROUGHT_BY_USERS | CLIENTS_OF_BROKERS | {"pydantic-core"}
    assert {module: names for module, names in found.items() if not names & known} == {}


def name_of(requirement: str) -> str:
    match = re.match(r"[\w-]+", requirement)
    assert match
    return match[0]
