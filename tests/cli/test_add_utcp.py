"""`spindle add NAME MANUAL`."""

from __future__ import annotations

import json
import tomllib

import pytest

TEXT = {"call_template_type": "text", "content": "Hello!"}
MANUAL = json.dumps({"utcp_version": "1.0.1", "tools": [{"name": "hello", "tool_call_template": TEXT}]})


def sources(folder) -> dict:
    return tomllib.loads((folder / "spindle.toml").read_text())["sources"]


@pytest.mark.parametrize(
    "content", [MANUAL, json.dumps(TEXT), "utcp_version: 1.0.1\ntools: []", '{"manual_call_templates": []}']
)
def test_a_manual_in_a_file_is_known_by_its_content(content, workspace, spindle):
    workspace.write("m.yaml", content)
    assert spindle("add", "polite", "m.yaml", "--no-sync").code == 0
    assert sources(workspace.root) == {"polite": {"kind": "utcp", "document": "m.yaml"}}


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("https://h.example/utcp", "utcp"), ("https://h.example/v1/utcp.json?x=1", "utcp"),
        ("https://h.example/.well-known/utcp", "utcp"), ("https://h.example/openapi.json", "openapi"),
    ],
)  # fmt: skip
def test_a_manual_at_a_url_is_known_by_its_name(place, kind, workspace, spindle):
    assert spindle("add", "far", place, "--no-sync").code == 0
    assert sources(workspace.root)["far"] == {"kind": kind, "document": place}


def test_another_place_needs_the_flag(workspace, spindle):
    assert spindle("add", "far", "https://h.example/tools", "--utcp", "--no-sync").code == 0
    assert sources(workspace.root)["far"]["kind"] == "utcp"
    assert "--openapi and --utcp" in spindle("add", "far", "https://h.example/t", "--utcp", "--openapi").err
    assert "spindle add NAME utcp.json --utcp" in spindle("add", "far", "--utcp").err


def test_its_tools_are_there_and_what_was_left_out_is_told(workspace, spindle):
    manual = json.loads(MANUAL)
    run = {"call_template_type": "cli", "commands": [{"command": "id"}]}
    manual["tools"].append({"name": "run", "tool_call_template": run})
    workspace.write("m.json", json.dumps(manual))
    done = spindle("add", "polite", "m.json")
    assert "1 tool" in done.out
    assert "polite.run was left out: cli is not among the protocols" in done.err
    assert spindle("call", "polite.hello").out == "Hello!\n"
    workspace.write("m.json", MANUAL.replace("hello", "bye"))
    assert [tool["name"] for tool in spindle("tools", "--json").json] == ["polite.bye"]
