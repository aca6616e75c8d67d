"""Runs over REST: listed, traced, cancelled, let go on and run again, each by those who may."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from servers.rest import RestWorkspace, Served
from servers.running import PATIENCE, until

TOOLS = '''
from pathlib import Path
from spindle import tool

HERE = Path(__file__).parent

@tool(read_only=True)
def first(word: str) -> str:
    """Begin."""
    with (HERE / "first.log").open("a") as log:
        log.write(word)
    return word.upper()

@tool
def second(word: str) -> str:
    """Go on, once it may."""
    if not (HERE / "may").exists():
        raise ValueError("not yet")
    return word + "!"
'''
FLOW = """
name: two
inputs:
  word: {type: string, default: hey}
nodes:
  - {id: one, tool: first, params: {word: "${word}"}}
  - {id: two, tool: second, params: {word: "${one}"}}
edges:
  - {from: one, to: two}
"""
SETTINGS = """
[serve.tokens]
root = { token = "token-of-root", admin = true }
ann = { token = "token-of-ann" }
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    rest = RestWorkspace(tmp_path_factory.mktemp("runs") / "rest")
    (rest.root / "tools" / "t.py").write_text(TOOLS)
    (rest.root / "flows").mkdir()
    (rest.root / "flows" / "two.yaml").write_text(FLOW)
    rest.settings(SETTINGS)
    assert rest.spindle("run", "two").returncode != 0  # it fails at its second node
    with rest.serve() as running:
        yield running


def ask(served: Served, method: str, path: str, user: str = "root", **more: Any) -> httpx2.Response:
    headers = {"authorization": f"Bearer token-of-{user}"}
    return httpx2.request(method, f"{served.url}{path}", headers=headers, timeout=PATIENCE, **more)


def runs(served: Served, query: str = "", user: str = "root") -> list[dict[str, Any]]:
    return ask(served, "GET", f"/runs{query}", user).json()["runs"]


async def test_a_failed_run_is_listed_traced_and_run_again_from_where_it_failed(served: Served) -> None:
    run = runs(served, "?kind=flow&status=failed")[0]
    assert (run["name"], run["status"]) == ("two", "failed")
    trace = ask(served, "GET", f"/runs/{run['id']}/trace").json()
    assert [(node["node"], node.get("output")) for node in trace["nodes"]] == [("one", "HEY"), ("two", None)]
    # Others have no such run, and nothing of it can be changed by them.
    assert runs(served, user="ann") == []
    for method, path in (
        ("GET", "/trace"), ("DELETE", ""), ("POST", "/resume"), ("POST", "/again"),
    ):  # fmt: skip
        assert ask(served, method, f"/runs/{run['id']}{path}", "ann").status_code == 404
    assert ask(served, "DELETE", f"/runs/{run['id']}").status_code == 422
    unknown = ask(served, "POST", f"/runs/{run['id']}/again", json={"form": "two"})
    assert unknown.status_code == 400
    nowhere = ask(served, "POST", f"/runs/{run['id']}/again", json={"from": "three"})
    assert nowhere.status_code >= 400
    (served.root / "tools" / "may").touch()
    made = (served.root / "tools" / "first.log").read_text()
    again = ask(served, "POST", f"/runs/{run['id']}/again", json={"from": "two"})
    assert again.status_code == 202
    new = again.json()["run"]
    await until(lambda: ask(served, "GET", f"/runs/{new}/trace").json()["status"] == "done")
    assert (served.root / "tools" / "first.log").read_text() == made  # what was done is not made again
    # The failed one goes on by itself as well, and then is done.
    assert ask(served, "POST", f"/runs/{run['id']}/resume").status_code == 202
    await until(lambda: ask(served, "GET", f"/runs/{run['id']}/trace").json()["status"] == "done")
    assert ask(served, "POST", f"/runs/{run['id']}/resume").status_code == 422


async def test_runs_are_listed_page_by_page_and_mistakes_are_named(served: Served) -> None:
    for word in ("a", "b", "c"):
        assert ask(served, "POST", "/tools/two", "ann", json={"word": word}).status_code in (200, 422)
    await until(lambda: len(runs(served, "?kind=call")) == 3)
    first = ask(served, "GET", "/runs?limit=2&kind=call", "ann").json()
    second = ask(served, "GET", f"/runs?limit=2&kind=call&before={first['older']}", "ann").json()
    assert [len(first["runs"]), len(second["runs"]), second["older"]] == [2, 1, None]
    for query in ("status=lost", "limit=0", "limit=x", "states=done"):
        assert ask(served, "GET", f"/runs?{query}").status_code == 400
    document = ask(served, "GET", "/runs/openapi.json").json()
    assert {"/runs", "/runs/{run}", "/runs/{run}/again", "/runs/{run}/resume"} <= set(document["paths"])
