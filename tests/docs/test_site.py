"""The site shows every page and every public name. That it builds is checked by `make docs`."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import spindle
import spindle.flows
import spindle.tables
import spindle.testing

ROOT = Path(__file__).parent.parent.parent


def pages_of(navigation: Any) -> Iterator[str]:
    if isinstance(navigation, str):
        yield navigation
    else:
        for part in navigation.values() if isinstance(navigation, dict) else navigation:
            yield from pages_of(part)


def test_every_page_is_in_the_navigation() -> None:
    settings = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))
    shown = list(pages_of(settings["project"]["nav"]))
    there = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    # scripts/build_site.py adds the decisions by their index.
    decisions = {page for page in there if re.match(r"decisions/\d", page)}
    elsewhere = {
        "index.md",
        "decisions/architecture.md",
        "decisions/contributing.md",
        "decisions/security.md",
        "reference/changelog.md",
    }
    assert set(shown) == (there - decisions) | elsewhere
    assert len(shown) == len(set(shown))


def test_every_public_name_is_on_the_page_of_names() -> None:
    page = (ROOT / "docs" / "reference" / "api.md").read_text("utf-8")
    shown = set(re.findall(r"^::: (\S+)$", page, re.MULTILINE))
    public = {f"spindle.{name}" for name in spindle.__all__ if name != "__version__"}
    public |= {f"spindle.tables.{name}" for name in spindle.tables.__all__}
    public |= {f"spindle.testing.{name}" for name in spindle.testing.__all__}
    public |= {f"spindle.flows.{name}" for name in spindle.flows.__all__ if name != "flow_safe"}
    assert {name for name in shown if not name.startswith("spindle.adapters.")} == public


def test_the_picture_of_the_terminal_shows_the_session_of_the_readme() -> None:
    picture = ElementTree.parse(ROOT / "docs" / "assets" / "terminal.svg").getroot()
    shown = " ".join("".join(picture.itertext()).split())
    session = (ROOT / "README.md").read_text("utf-8").split("```console\n", 1)[1].split("```", 1)[0]
    commands = re.findall(r"^\$ (.+)$", session, re.MULTILINE)
    assert commands
    for command in commands:
        assert command.replace(" ", "") in shown.replace(" ", ""), (
            f"{command}: draw it again with `make picture`"
        )


def test_pictures_fetch_nothing() -> None:
    for picture in (ROOT / "docs" / "assets").glob("*.svg"):
        addresses = re.findall(r"(?:https?:)?//[^\s\"')]+", picture.read_text("utf-8"))
        assert set(addresses) <= {"http://www.w3.org/2000/svg"}, picture.name
