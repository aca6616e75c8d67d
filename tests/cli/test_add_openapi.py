"""`spindle add NAME DOCUMENT`, and what `spindle sync` says of a document."""

from __future__ import annotations

import json
import tomllib

PATHS = {f"/{name}/{{id}}": {"get": {"operationId": name, "responses": {}}} for name in "abcdefghijklmno"}
DOCUMENT = json.dumps({"openapi": "3.0.0", "info": {}, "servers": [{"url": "http://h"}], "paths": PATHS})


def sources(folder) -> dict:
    return tomllib.loads((folder / "spindle.toml").read_text())["sources"]


def test_a_document_is_known_by_its_ending(workspace, spindle):
    workspace.write("apis/shop.json", DOCUMENT)
    done = spindle("add", "shop", "apis/shop.json", "--bearer-env", "TOKEN", "--no-sync")
    assert done.code == 0
    assert sources(workspace.root) == {
        "shop": {
            "kind": "openapi",
            "document": "apis/shop.json",
            "auth": {"type": "bearer", "token": "${TOKEN}"},
        }
    }
    assert spindle("add", "far", "https://h.example/v1/openapi.yaml?x=1", "--no-sync").code == 0
    assert sources(workspace.root)["far"]["document"] == "https://h.example/v1/openapi.yaml?x=1"


def test_a_document_of_another_name_needs_the_flag(workspace, spindle):
    done = spindle("add", "far", "https://h.example/api-docs", "--openapi", "--no-sync")
    assert done.code == 0
    assert sources(workspace.root)["far"]["kind"] == "openapi"
    done = spindle("add", "far", "--openapi")
    assert done.code == 2
    assert "give a name and the document's URL or file" in done.err


def test_its_tools_are_there_at_once_and_follow_the_file(workspace, spindle):
    workspace.write("shop.json", DOCUMENT)
    assert "15 tools" in spindle("add", "shop", "shop.json").out
    shown = spindle("show", "shop.a", "--json").json
    assert shown["input_schema"]["required"] == ["id"]
    fewer = json.loads(DOCUMENT)
    fewer["paths"] = {"/new": {"get": {"operationId": "new", "description": "Longer than before"}}}
    workspace.write("shop.json", json.dumps(fewer))
    assert [tool["name"] for tool in spindle("tools", "--json").json] == ["shop.new"]


def test_notes_are_cut_short_unless_asked_for(workspace, spindle):
    workspace.write("shop.json", DOCUMENT)
    spindle("add", "shop", "shop.json", "--no-sync")
    short = spindle("sync").err.splitlines()
    assert len(short) == 11
    assert short[-1] == "note: 5 more notes; `spindle sync --verbose` shows all"
    assert len(spindle("sync", "--verbose").err.splitlines()) == 15
