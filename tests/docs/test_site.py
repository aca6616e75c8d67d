"""The site shows every page and every public name. That it builds is checked by `make docs`."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import spindle
import spindle.flows
import spindle.testing

ROOT = Path(__file__).parent.parent.parent
POCKETFLOW = "spindle.flows.pocketflow"


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
        "reference/changelog.md",
    }
    assert set(shown) == (there - decisions) | elsewhere
    assert len(shown) == len(set(shown))


def test_every_public_name_is_on_the_page_of_names() -> None:
    page = (ROOT / "docs" / "reference" / "api.md").read_text("utf-8")
    shown = set(re.findall(r"^::: (\S+)$", page, re.MULTILINE))
    public = {f"spindle.{name}" for name in spindle.__all__ if name != "__version__"}
    public |= {f"spindle.testing.{name}" for name in spindle.testing.__all__}
    # Classes for programs that were written for pocketflow, which know them.
    foreign = {
        name for name in spindle.flows.__all__ if getattr(spindle.flows, name).__module__ == POCKETFLOW
    }
    public |= {
        f"spindle.flows.{name}" for name in spindle.flows.__all__ if name not in foreign | {"flow_safe"}
    }
    assert shown == public
