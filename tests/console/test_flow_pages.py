"""Flows over HTTP and on their pages, without a browser: read, judged, saved, run, and kept from others."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from servers.running import PATIENCE
from servers.signed_in import SignedIn, signed_in
from spindle.flows.text.files import MAX_SIZE
from spindle.serving.flow_files import MAX_NODES
from spindle.testing import ModelServer

TOOLS = """
from spindle import tool

@tool
def shorten(text: str, words: int = 3) -> str:
    "Make a text shorter."
    return " ".join(text.split()[:words])

@tool
def secret_tool(text: str) -> str:
    "Nobody but the owner sees it."
    return text
"""
GIST = """\
name: gist
description: Say what a text is about.
inputs:
  text: {type: string}
nodes:
- {id: cut, tool: shorten, params: {text: "${text}"}}
outputs:
  gist: ${shorten}
"""
INNER = """\
description: Uses what others do not see.
nodes:
- {id: hide, tool: secret_tool, params: {text: x}}
"""
BROKEN = "nodes:\n- {id: a, tool: shorten}\nedges:\n- {from: a, to: nowhere}\n"
CONFIG: dict[str, Any] = {
    "tokens": {
        "ann": {"token": "token-of-ann", "groups": ["few"]},
        "adm": {"token": "token-of-adm", "admin": True},
    },
    "groups": {"few": {"exposed_tools": ["gist", "inner", "shorten"]}},
    "excluded_tools": [],
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {
        "tools/t.py": TOOLS, "flows/gist.yaml": GIST, "flows/inner.yaml": INNER, "flows/bad.yaml": BROKEN,
        "spindle.toml": "",
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
async def owner(root: Path) -> AsyncIterator[SignedIn]:
    async with signed_in(root) as found:
        yield found


async def test_the_list_and_a_page_show_a_flow_and_what_is_wrong_with_its_file(owner: SignedIn) -> None:
    _, client, _ = owner
    listed = (await client.get("/console/flows")).text
    assert "Say what a text is about." in listed
    assert "flows/bad.yaml:4" in listed
    assert "New flow" in listed
    page = (await client.get("/console/flows/gist.yaml")).text
    assert 'class="spindle-flow"' in page
    assert 'data-run="gist"' in page
    assert "<style" not in page
    bad = (await client.get("/console/flows/bad.yaml")).text
    assert "flows/bad.yaml:4" in bad
    assert "data-run" not in bad
    for missing in ("nothing.yaml", "../spindle.toml", "%2e%2e/spindle.toml", "gist.yaml/x/edit"):
        assert (await client.get(f"/console/flows/{missing}")).status_code == 404, missing


async def test_a_call_is_added_to_a_flow_as_a_node(owner: SignedIn, root: Path) -> None:
    _, client, mark = owner
    sent = {"file": "gist.yaml", "tool": "shorten", "params": {"text": "it"}}
    extended = await client.post("/admin/v1/flows/extend", json=sent, headers=mark)
    made = extended.json()
    assert (made["node"], made["after"], made["nodes"]) == ("shorten", "cut", ["cut"])
    assert (root / "flows" / "gist.yaml").read_text() == GIST  # nothing is saved yet
    body = {"text": made["text"], "version": made["version"]}
    assert (await client.put("/admin/v1/flows/gist.yaml", json=body, headers=mark)).status_code == 200
    ran = await client.post("/tools/gist", json={"text": "one two three four"}, headers=mark)
    assert ran.json() == {"gist": "it"}
    for wrong, status in (
        ({**sent, "file": "nothing.yaml"}, 404), ({**sent, "file": "../spindle.toml"}, 404),
        ({**sent, "after": "nowhere"}, 400), ({**sent, "after": 1}, 400), ({**sent, "params": []}, 400),
        ({"file": "gist.yaml"}, 400), ({**sent, "file": "bad.yaml", "after": "a"}, 200),
    ):  # fmt: skip
        answer = await client.post("/admin/v1/flows/extend", json=wrong, headers=mark)
        assert answer.status_code == status, wrong
    described = (await client.get("/admin/v1/openapi.json")).json()["paths"]
    assert "/admin/v1/flows/extend" in described
    assert "bad.yaml</option>" in (await client.get("/console/tools/shorten/try")).text


async def test_a_text_is_checked_and_drawn_as_it_would_be_saved(owner: SignedIn) -> None:
    _, client, mark = owner
    sent = {"text": BROKEN, "format": "yaml", "file": "flows/bad.yaml"}
    checked = (await client.post("/admin/v1/flows/check", json=sent, headers=mark)).json()
    assert not checked["ok"]
    assert checked["is_readable"]
    assert {"place": "flows/bad.yaml", "line": 4}.items() <= checked["problems"][0].items()
    drawn = await client.post("/admin/v1/flows/draw", json={"text": GIST}, headers=mark)
    assert drawn.headers["content-type"] == "image/svg+xml"
    assert "cut" in drawn.text
    unread = await client.post("/admin/v1/flows/draw", json={"text": "nodes: ["}, headers=mark)
    assert unread.status_code == 422
    described = (await client.get("/admin/v1/openapi.json")).json()["paths"]
    assert {"/admin/v1/flows/check", "/admin/v1/flows/draw", "/admin/v1/flows/draft"} <= described.keys()
    assert "put" in described["/admin/v1/flows/{name}"]
    people = (await client.get("/runs/openapi.json")).json()["paths"]
    assert "post" in people["/flows/{name}/runs"]


async def test_a_flow_is_saved_by_its_version_and_never_over_the_work_of_somebody_else(
    owner: SignedIn, root: Path
) -> None:
    app, client, mark = owner
    file, path = root / "flows" / "gist.yaml", "/admin/v1/flows/gist.yaml"
    opened = (await client.get(path)).json()
    assert opened["version"] == hashlib.sha256(file.read_bytes()).hexdigest()
    mine = GIST.replace("Say what", "Tell what")
    unmarked = await client.put(path, json={"text": mine, "version": opened["version"]})
    assert unmarked.status_code == 403
    saved = await client.put(path, json={"text": mine, "version": opened["version"]}, headers=mark)
    assert saved.status_code == 200, saved.text
    assert file.read_text() == mine
    assert (await app.show("gist")).description == "Tell what a text is about."

    file.write_text(GIST)  # somebody else
    late = await client.put(path, json={"text": mine, "version": saved.json()["version"]}, headers=mark)
    assert late.status_code == 409
    assert "nothing was saved" in late.json()["message"]
    assert late.json()["now"]["text"] == file.read_text() == GIST
    file.unlink()
    gone = await client.put(path, json={"text": mine, "version": opened["version"]}, headers=mark)
    assert gone.status_code == 409
    assert not file.exists()


async def test_only_what_checks_is_saved_unless_the_owner_says_so(owner: SignedIn, root: Path) -> None:
    _, client, mark = owner
    path = "/admin/v1/flows/fresh.yaml"
    refused = await client.put(path, json={"text": BROKEN}, headers=mark)
    assert refused.status_code == 422
    assert refused.json()["problems"][0]["line"] == 4
    assert not (root / "flows" / "fresh.yaml").exists()
    saved = await client.put(path, json={"text": BROKEN, "anyway": True}, headers=mark)
    assert saved.status_code == 200, saved.text
    again = await client.put(path, json={"text": GIST}, headers=mark)
    assert again.status_code == 409  # it is there already
    for name in (
        "../out.yaml",
        "shorten.yaml",
        "a b.yaml",
        "x.py",
        "-x.yaml",
        "sub/x.yaml",
        "%2e%2e%2fout.yaml",
    ):
        answer = await client.put(f"/admin/v1/flows/{name}", json={"text": GIST}, headers=mark)
        assert answer.status_code in (400, 404, 405, 500), (name, answer.text)
    assert not (root / "out.yaml").exists()
    assert sorted(path.name for path in (root / "flows").iterdir()) == [
        "bad.yaml", "fresh.yaml", "gist.yaml", "inner.yaml",
    ]  # fmt: skip


async def test_a_run_begins_with_checked_inputs_and_goes_on_by_itself(owner: SignedIn) -> None:
    app, client, mark = owner
    wrong = await client.post("/flows/gist/runs", json={"text": 3}, headers=mark)
    assert wrong.status_code == 400
    assert wrong.json()["details"][0]["path"] == "text"
    assert await app.store.runs(limit=5) == []
    begun = await client.post("/flows/gist/runs", json={"text": "one two three four"}, headers=mark)
    assert begun.status_code == 202
    run = begun.json()["run"]
    async with asyncio.timeout(PATIENCE):
        while (found := await app.store.run(run)) is None or found.status != "done":
            await asyncio.sleep(0.01)
    assert (found.kind, found.name) == ("flow", "gist")
    assert (await app.runner.outcome(found)).structured == {"gist": "one two three"}
    assert run in (await client.get("/console/flows/gist.yaml")).text
    for name in ("nothing", "shorten"):
        assert (await client.post(f"/flows/{name}/runs", json={}, headers=mark)).status_code == 404


async def test_others_run_what_they_see_and_change_nothing(root: Path) -> None:
    async with signed_in(root, CONFIG, token="token-of-ann") as (_, client, mark):
        listed = (await client.get("/console/flows")).text
        assert "gist" in listed
        assert "bad.yaml" not in listed
        assert "New flow" not in listed
        page = (await client.get("/console/flows/gist.yaml")).text
        assert 'class="spindle-flow"' in page
        assert "params:" not in page  # the file
        inner = (await client.get("/console/flows/inner.yaml")).text
        assert "secret_tool" not in inner
        assert "tools that you do not see" in inner
        assert (await client.get("/console/flows/bad.yaml")).status_code == 404
        assert (await client.get("/console/flows/gist.yaml/edit")).status_code == 403
        ran = await client.post("/flows/gist/runs", json={"text": "a b c d"}, headers=mark)
        assert ran.status_code == 202, ran.text
        unseen = await client.post("/flows/inner/runs", json={}, headers=mark)
        assert unseen.status_code in (404, 422), unseen.text
        sent = {"text": GIST}
        for method, path in (
            ("GET", "gist.yaml"),
            ("PUT", "mine.yaml"),
            ("POST", "check"),
            ("POST", "draft"),
        ):
            answer = await client.request(method, f"/admin/v1/flows/{path}", json=sent, headers=mark)
            assert answer.status_code == 403, path
    async with signed_in(root, CONFIG, token="token-of-adm") as (_, client, mark):
        assert (await client.get("/admin/v1/flows/gist.yaml")).json()["text"] == GIST
        refused = await client.put("/admin/v1/flows/mine.yaml", json={"text": GIST}, headers=mark)
        assert refused.status_code == 403
        assert "only the owner" in refused.json()["message"]
        assert "Only the owner" in (await client.get("/console/flows/gist.yaml/edit")).text


def _chain(count: int) -> str:
    nodes = "".join(f"- {{id: n{at}, transform: {{x: 1}}}}\n" for at in range(count))
    edges = "".join(f"- {{from: n{at}, to: n{at + 1}}}\n" for at in range(count - 1))
    return f"nodes:\n{nodes}edges:\n{edges}"


def _mesh(count: int) -> str:
    nodes = "".join(f"- {{id: n{at}, transform: {{x: 1}}}}\n" for at in range(count))
    pairs = ((one, two) for one in range(count) for two in range(count))
    edges = "".join(f"- {{from: n{one}, to: n{two}, action: a{two}}}\n" for one, two in pairs)
    return f"nodes:\n{nodes}edges:\n{edges}"


HOSTILE = {
    "large": "x: " + "y" * (10 * 1024 * 1024),
    "script": 'name: "<script>alert(1)</script>"\nnodes:\n- {id: "</textarea><img src=x onerror=alert(2)>",'
    " transform: {x: 1}}\n",
    "title": "name: '<script>alert(1)</script>'\ndescription: </textarea><script>alert(3)</script>\n"
    "nodes:\n- {id: a, transform: {x: '</title><img src=x onerror=alert(4)>'}}\n",
    "deep": "nodes: " + "[" * 5000 + "]" * 5000,
    "nested": "nodes:\n- id: a\n" + "".join(
        f"{'  ' * (2 * level + 1)}flow:\n{'  ' * (2 * level + 2)}nodes:\n{'  ' * (2 * level + 2)}- id: a\n"
        for level in range(40)
    ),
    "cycle": "nodes:\n- {id: a, transform: {x: 1}}\n- {id: b, transform: {x: 1}}\n"
    "edges:\n- {from: a, to: b}\n- {from: b, to: a}\n",
    "aliases": "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{chr(98 + at)}: &{chr(98 + at)} [{', '.join([f'*{chr(97 + at)}'] * 9)}]\n" for at in range(9)
    ),
    "many": _chain(MAX_NODES + 1),
    "mesh": _mesh(44),
    "bidi": "description: \u202egnp.exe\nnodes:\n- {id: a, transform: {x: 1}}\n",
}  # fmt: skip


async def test_hostile_files_are_shown_as_what_they_are(root: Path) -> None:
    for name, text in HOSTILE.items():
        (root / "flows" / f"h-{name}.yaml").write_text(text)
    (root / "flows" / "h-bytes.yaml").write_bytes(b"\xff\xfe\x00nodes")
    (root / "outside.yaml").write_text("the secret of outside")
    (root / "flows" / "h-link.yaml").symlink_to(root / "outside.yaml")
    async with signed_in(root) as (_, client, mark):
        listed = await client.get("/console/flows")
        assert listed.status_code == 200
        assert "<script>alert" not in listed.text
        for name in (*HOSTILE, "bytes", "link"):
            for path in (f"h-{name}.yaml", f"h-{name}.yaml/edit"):
                page = await client.get(f"/console/flows/{path}")
                assert page.status_code == 200, path
                assert len(page.text) < 3 * MAX_SIZE, path
                assert "<script>alert" not in page.text, path
                assert "<img" not in page.text, path
                assert "secret of outside" not in page.text, path
        assert "\u202e" not in (await client.get("/console/flows/h-bidi.yaml")).text
        for name, text in HOSTILE.items():
            answer = await client.post("/admin/v1/flows/check", json={"text": text}, headers=mark)
            assert answer.status_code == (413 if name == "large" else 200), name
        now = (await client.get("/admin/v1/flows/h-link.yaml")).json()
        assert now["text"] is None
        sent = {"text": GIST, "version": now["version"]}
        assert (await client.put("/admin/v1/flows/h-link.yaml", json=sent, headers=mark)).status_code >= 400
        assert (root / "outside.yaml").read_text() == "the secret of outside"


async def test_words_become_a_draft_where_there_is_a_model(root: Path) -> None:
    async with signed_in(root) as (_, client, mark):
        page = (await client.get("/console/flows/new")).text
        assert "No model is chosen" in page
        assert "data-ask" not in page
        refused = await client.post("/admin/v1/flows/draft", json={"words": "shorten it"}, headers=mark)
        assert "no model is chosen" in refused.json()["message"]
    (root / "flows" / "gist.yaml").unlink()
    answer = '{"name": "brief", "nodes": [{"id": "cut", "tool": "shorten", "params": {"text": "a b c d"}}]}'
    with ModelServer(answer) as server:
        (root / "spindle.toml").write_text('[agent]\nmodel = "openai-chat:scripted"\n')
        with pytest.MonkeyPatch.context() as patch:
            for name, value in server.environment().items():
                patch.setenv(name, value)
            async with signed_in(root) as (_, client, mark):
                assert "data-ask" in (await client.get("/console/flows/new")).text
                draft = await client.post(
                    "/admin/v1/flows/draft", json={"words": "shorten a text"}, headers=mark
                )
                assert draft.status_code == 200, draft.text
                assert "tool: shorten" in draft.json()["text"]
                assert draft.json()["from_saved"] is None
                assert not (root / "flows" / "brief.yaml").exists()
