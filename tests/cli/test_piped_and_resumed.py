"""What is piped into a flow, and runs that are taken up again."""

from __future__ import annotations

import itertools
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cli.test_run_command import lines
from servers import warm

TOOLS = """
from typing import Any

from spindle import tool

@tool
def upper(text: str) -> str:
    return text.upper()

@tool
def same(value: Any) -> dict[str, Any]:
    return {"value": value}
"""

BOOM = """
from spindle import tool

@tool
def boom() -> str:
    BODY
"""


@pytest.fixture
def flows(workspace: Any) -> Any:
    workspace.write("tools/words.py", TOOLS)
    return workspace


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["upper --text=x"], "no input of this pipe takes it"),
        (["upper --text=x", "--dry-run"], "no input of this pipe takes it"),
        (["upper", "--text=x"], "no input of this pipe takes it"),
        (["upper --text='${stdin}'", "--stdin=x"], "the input 'stdin' is given already"),
    ],
)
def test_what_is_piped_in_and_nobody_takes_is_an_error(
    flows: Any, program: Any, words: list[str], why: str
) -> None:
    done = program("run", *words, stdin="for nobody\n")
    assert (done.code, done.out) == (4, "")
    assert done.err.splitlines() == [
        f"spindle: something is piped in, but {why}",
        "  hint: ${stdin} names it in a line of tools; `</dev/null` after the command keeps it away",
    ]
    assert program("run", "-q", "upper --text=x", stdin="").out == "X\n", "an empty pipe is nothing"


def test_what_nobody_takes_is_left_to_others(flows: Any) -> None:
    loop = f"printf 'a\\nb\\n' | {{ read x; {warm.SPINDLE} run -q 'upper --text='$x </dev/null; cat; }}"
    done = subprocess.run(["sh", "-c", loop], capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout == "A\nb\n"


PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


def test_binary_data_that_is_piped_in_is_a_file(flows: Any) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [warm.SPINDLE, "run", "-q", *words], input=PICTURE, capture_output=True, timeout=300, check=False
        )

    done = run("same --value='${stdin}'", "--output", "same")
    assert done.returncode == 0, done.stderr
    value = json.loads(done.stdout)
    assert Path(value["value"].pop("path")).read_bytes() == PICTURE
    assert value == {"value": {"type": "image", "mime_type": "image/png", "size": len(PICTURE)}}
    named = run("upper --text='${stdin.mime_type}'")
    assert named.stdout == b"IMAGE/PNG\n"
    wrong = run("upper")
    assert (wrong.returncode, wrong.stdout) == (4, b"")
    assert wrong.stderr.decode().splitlines() == [
        f"spindle: what is piped in is no text (image/png, {len(PICTURE)} bytes), "
        "and `text` of node 'upper' takes string",
        "  hint: it is a file: ${stdin.path} is its place, ${stdin.mime_type} its kind",
    ]


def save(flows: Any, name: str, nodes: list[dict[str, Any]]) -> None:
    ids = [node["id"] for node in nodes]
    edges = [{"from": one, "to": other} for one, other in itertools.pairwise(ids)]
    flows.write(f"flows/{name}.json", json.dumps({"version": 1, "nodes": nodes, "edges": edges}))


def test_resuming_a_failed_run_names_the_node_to_run_it_from(flows: Any, spindle: Any) -> None:
    nodes = [{"id": "up", "tool": "upper", "params": {"text": "x"}}, {"id": "bad", "tool": "boom"}]
    save(flows, "fragile", [*nodes, {"id": "last", "tool": "upper", "params": {"text": "${bad}"}}])
    flows.write("tools/fragile.py", BOOM.replace("BODY", 'raise ValueError("it broke")'))
    failed = spindle("run", "fragile")
    assert failed.code == 1, failed
    (run,) = spindle("runs", "--json").json
    resumed = spindle("resume", run["id"][:10])
    assert resumed.code == 1
    assert resumed.err.splitlines()[-1] == (
        "  hint: it has failed, and is not resumed; "
        f"`spindle run fragile --from bad --run {run['id'][:12]}` runs the flow from there, "
        "with what this run had done"
    )
    flows.write("tools/fragile.py", BOOM.replace("BODY", 'return "mended"'))
    again = spindle("run", "fragile", "--from", "bad", "--run", run["id"][:12])
    assert (again.code, again.out, lines(again.err)) == (0, "MENDED\n", ["✓ bad", "✓ last"])


def test_nodes_of_all_kinds_that_were_shown_are_not_shown_again(flows: Any, spindle: Any) -> None:
    inner = {"nodes": [{"id": "x", "tool": "upper", "params": {"text": "x"}}], "edges": []}
    save(
        flows,
        "asking",
        [{"id": "sub", "flow": inner}, {"id": "q", "ask": "sure?"}, {"id": "r", "ask": "really?"}],
    )
    assert lines(spindle("run", "asking").err)[:2] == ["✓ sub/x", "✓ sub"]
    second = spindle("resume", spindle("pauses", "--json").json[0]["token"], "yes")
    assert lines(second.err)[:2] == ["note: 2 nodes done before", "✓ q"]
    third = spindle("resume", spindle("pauses", "--json").json[0]["token"], "yes")
    assert lines(third.err) == ["note: 3 nodes done before", "✓ r"]
