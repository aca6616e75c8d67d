"""A workspace with something on record for every screen of the console, and their addresses."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from servers.asking import asking
from spindle.console.screens import SCREENS

if TYPE_CHECKING:
    from servers.rest import RestWorkspace, Served

FLOW = """\
inputs:
  text: {type: string, default: hello}
nodes:
- {id: twice, transform: {said: "${text}, ${text}"}}
"""


def with_everything(root: Path) -> RestWorkspace:
    """Makes the workspace: a flow that ran twice, a group, a quota, tools that wait for people."""
    rest = asking(root)
    rest.settings("[serve]\nconsole = true\n[serve.groups.few]\nexposed_tools = ['lunch']\n")
    (rest.root / "flows").mkdir()
    (rest.root / "flows" / "twice.yaml").write_text(FLOW)
    rest.json("quota", "set", "small", "--calls", "5/minute", "--json")
    rest.json("group", "set", "many", "--exclude", "order", "--json")
    for _ in range(2):
        assert rest.spindle("run", "twice").returncode == 0
    return rest


def addresses(rest: RestWorkspace, served: Served) -> list[str]:
    """Returns an address of each screen, once there is a call and a pause to look at."""
    assert served.call("lunch").status_code == 202
    one, other = (run["id"] for run in rest.json("runs", "--json") if run["name"] == "twice")
    (pause,) = served.client.get("/pauses").json()["waiting"]
    call = rest.json("history", "--json")[0]["key"]
    known = {
        "/tools/{name}": "/tools/order", "/tools/{name}/try": "/tools/order/try",
        "/sources/{name}": "/sources/tools", "/runs/{id}": f"/runs/{one}",
        "/runs/{id}/compare": f"/runs/{one}/compare?with={other}",
        "/flows/{file:path}/edit": "/flows/twice.yaml/edit", "/flows/{file:path}": "/flows/twice.yaml",
        "/calls/{key}": f"/calls/{call}", "/waiting/{token}": f"/waiting/{pause['token']}",
        "/find": "/tools?q=lunch", "/health/examined": "/health",
    }  # fmt: skip
    paths = [known.get(screen.path, screen.path) for screen in SCREENS]
    assert not [path for path in paths if "{" in path], "a new screen: say which address shows it"
    return list(dict.fromkeys(paths))
