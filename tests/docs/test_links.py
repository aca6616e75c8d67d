"""Links between the pages lead somewhere, in the repository as well as on the site."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "integrations").rglob("*.md")])
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def links(page: Path) -> list[str]:
    text = FENCED.sub("", page.read_text("utf-8"))
    found = [either or other for either, other in LINK.findall(text)]
    return [link for link in found if not re.match(r"[a-z]+:", link)]


def anchors(page: Path) -> set[str]:
    """Returns the anchors of a page's headings, as both GitHub and the site make them."""
    headings = HEADING.findall(FENCED.sub("", page.read_text("utf-8")))
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings]
    return {re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading).strip()) for heading in plain}


def test_links_lead_to_files_and_headings_that_exist() -> None:
    broken = []
    for page in PAGES:
        for link in links(page):
            name, _, anchor = link.partition("#")
            target = (page.parent / name) if name else page
            if not target.exists() or (anchor and anchor not in anchors(target)):
                broken.append(f"{page.relative_to(ROOT)}: {link}")
    assert not broken


def test_pages_link_only_to_what_the_repository_has() -> None:
    assert not [
        f"{page.relative_to(ROOT)}: {link}" for page in PAGES for link in links(page) if link[0] == "/"
    ]
