"""What pages change: every change is a request that an OpenAPI document of the server describes."""

from __future__ import annotations

import re
from pathlib import Path

from spindle import console
from spindle.rest import runs_document
from spindle.serving import admin_document

FOLDER = Path(console.__file__).parent
SCRIPTS = Path(__file__).parents[2] / "console"
OWN = {"POST /console/leave"}
"""Ends a browser's session, which only a browser has."""


def test_every_change_of_a_page_is_in_an_openapi_document() -> None:
    paths = {**admin_document.document()["paths"], **runs_document.document("", wants_token=True)["paths"]}
    described = {
        f"{method.upper()} {re.sub(r'{.*?}', '*', path)}" for path, item in paths.items() for method in item
    }
    asked: set[str] = set()
    for file in (FOLDER / "templates").glob("*.html"):
        asked |= {
            _with_stars(text) for text in re.findall(r'data-api="(\w+ [^"]+)"', file.read_text("utf-8"))
        }
    for file in SCRIPTS.glob("*.js"):
        for method, path in re.findall(r'api\("(\w+)", ["`](/[^"`]*)', file.read_text("utf-8")):
            asked.add(_with_stars(f"{method} {path}"))
    assert len(asked) > 15
    assert {text for text in asked - OWN if text not in described} == set()


def _with_stars(text: str) -> str:
    return re.sub(r"\{\{.*?\}\}|\{\w+\}|\$\{[^}]*\}?", "*", text)
