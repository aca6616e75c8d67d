"""Builds the site out of the repository's pages into site/. Run it as: make docs

The pages are plain Markdown that reads well in the repository. What the site wants otherwise is done to
copies: README.md becomes the first page, links to files that are not on the site become plain text, the name
of a file that an example writes becomes its title, and every decision gets its line in the navigation.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import tomlkit

ROOT = Path(__file__).parent.parent
STAGE = ROOT / "build" / "site"
# Pages that lie outside docs/, and where the site has them.
ELSEWHERE = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "decisions/architecture.md",
    "CONTRIBUTING.md": "decisions/contributing.md",
    "CHANGELOG.md": "reference/changelog.md",
    "SECURITY.md": "decisions/security.md",
}
FENCE = re.compile(r"^```(\w+) +(\S.*)$", re.MULTILINE)
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s:]+)\)")
IMAGE = re.compile(r"(!\[[^\]]*\]\(|<img [^>]*src=\")([^)\s\":]+)")
# What lets pages search that are opened from the disk; docs/assets/worker.js does the same.
FOREIGN_WORKER = "https://unpkg.com/iframe-worker/shim"
LOADED = re.compile(
    r"<(?:script|img|iframe)[^>]* src=\"?((?:https?:)?//[^\" >]+)|<link[^>]* href=\"?((?:https?:)?//[^\" >]+)"
)


def main() -> int:
    shutil.rmtree(STAGE, ignore_errors=True)
    shutil.copytree(ROOT / "docs", STAGE / "docs")
    places = {
        ROOT / "docs" / path.relative_to(STAGE / "docs"): path for path in (STAGE / "docs").rglob("*.*")
    }
    places |= {ROOT / name: STAGE / "docs" / place for name, place in ELSEWHERE.items()}
    for page, place in places.items():
        if page.suffix == ".md":
            place.write_text(converted(page, place, places), "utf-8")
    (STAGE / "zensical.toml").write_text(settings(), "utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    if code := subprocess.run(
        command, cwd=STAGE, env={**os.environ, "NO_COLOR": "1"}, check=False
    ).returncode:
        return code
    for page in (STAGE / "site").rglob("*.html"):
        stand_alone(page)
    shutil.rmtree(ROOT / "site", ignore_errors=True)
    (STAGE / "site").rename(ROOT / "site")
    return 0


def converted(page: Path, place: Path, places: dict[Path, Path]) -> str:
    """Returns the text of a page as the site wants it."""

    def target(link: str) -> str | None:
        name, _, anchor = link.partition("#")
        if not name:
            return link
        there = places.get((page.parent / name).resolve())
        if there is None:
            return None
        return os.path.relpath(there, place.parent) + (f"#{anchor}" if anchor else "")

    def link(match: re.Match[str]) -> str:
        there = target(match[2])
        return f"[{match[1]}]({there})" if there else match[1]

    def image(match: re.Match[str]) -> str:
        return f"{match[1]}{target(match[2]) or match[2]}"

    def fence(match: re.Match[str]) -> str:
        options = dict(part.split("=", 1) for part in match[2].split())
        title = f' title="{options["file"]}"' if "file" in options else ""
        return f"```{match[1]}{title}"

    parts = re.split(r"(^```.*?^```$)", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    prose = (IMAGE.sub(image, LINK.sub(link, part)) for part in parts[::2])
    code = [FENCE.sub(fence, part) for part in parts[1::2]]
    return "".join(text for pair in zip(prose, [*code, ""], strict=True) for text in pair)


def stand_alone(page: Path) -> None:
    """Makes a page load its one foreign script from the site itself, and refuses any other."""
    ours = os.path.relpath(STAGE / "site" / "assets" / "worker.js", page.parent)
    text = page.read_text("utf-8").replace(FOREIGN_WORKER, ours)
    if loaded := LOADED.findall(text):
        raise SystemExit(f"{page.relative_to(STAGE)} would load {loaded}")
    page.write_text(text, "utf-8")


def settings() -> str:
    """Returns the settings of the site, with every decision in its navigation."""
    document = tomlkit.parse((ROOT / "zensical.toml").read_text("utf-8"))
    groups: list[dict[str, list[str]]] = []
    for line in (ROOT / "docs" / "decisions" / "index.md").read_text("utf-8").splitlines():
        if line.startswith("## "):
            groups.append({line.removeprefix("## "): []})
        elif groups and (listed := re.match(r"- \[.+\]\((.+)\)$", line)):
            next(iter(groups[-1].values())).append(f"decisions/{listed[1]}")
    project = document["project"]
    project["nav"] = [drawer for drawer in project["nav"].unwrap() if "Decisions" not in drawer] + [
        {"Decisions": next(it["Decisions"] for it in project["nav"].unwrap() if "Decisions" in it) + groups}
    ]
    for handler in project["plugins"]["mkdocstrings"]["handlers"].values():
        handler["paths"] = [os.path.relpath(ROOT / path, STAGE) for path in handler["paths"]]
    return tomlkit.dumps(document)


if __name__ == "__main__":
    sys.exit(main())
