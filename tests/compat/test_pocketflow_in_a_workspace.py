"""Nodes and flows with pocketflow's names in the `flows/` of a workspace: they are tools like any other."""

from __future__ import annotations

from pathlib import Path

import pytest

import spindle

PROGRAM = '''
from NAMES import AsyncFlow, AsyncNode, BaseNode, Flow, Node, flow_safe


class Measure(BaseNode):
    """Measure a text.

    Interface:
    - Reads: shared["text"]: str - what to measure
    - Writes: shared["length"]: int - its length
    - Actions: "default", "long"
    """

    def prep(self, shared):
        return shared["text"]

    def exec(self, text):
        return len(text)

    def post(self, shared, text, length):
        shared["length"] = length
        return "long" if length > 10 else None


@flow_safe
class Shorten(AsyncNode):
    """Shorten a text.

    Interface:
    - Reads: shared["text"]: str - what to shorten
    - Writes: shared["text"]: str - the beginning
    - Params: most: int - how much is left (default: 5)
    """

    async def prep_async(self, shared):
        return shared["text"]

    async def exec_async(self, text):
        return text[: self.params.get("most", 5)]

    async def post_async(self, shared, prep_res, exec_res):
        shared["text"] = exec_res
        return "shortened"


measure = Measure()
measure - "long" >> Shorten()
fitted = AsyncFlow(measure, name="fitted", inputs={"text": {"type": "string"}}, outputs={"text": "${text}"})
'''


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "spindle.toml").touch()
    (tmp_path / "flows").mkdir()
    return tmp_path


async def test_its_nodes_and_flows_are_tools(workspace: Path) -> None:
    program = PROGRAM.replace("NAMES", "spindle.compat.pocketflow")
    (workspace / "flows" / "program.py").write_text(program)
    notes: list[str] = []
    async with spindle.open(workspace, note=notes.append) as app:
        assert [tool.name for tool in await app.tools()] == ["fitted", "measure", "shorten"]
        assert (await app.call("measure", text="short")).structured == {"length": 5}
        assert (await app.call("shorten", text="a long text", most=3)).structured == {"text": "a l"}
        assert (await app.call("fitted", text="a long text it is")).structured == {"text": "a lon"}
        done = await app.run_flow("fitted --text=short")
        assert done.result.structured == {"text": "short"}
    assert notes == []


async def test_classes_of_pocketflow_itself_are_left_out_with_the_way_out(workspace: Path) -> None:
    program = PROGRAM.replace("NAMES", "pocketflow").replace(", flow_safe", "").replace("@flow_safe\n", "")
    program = program.split("fitted =")[0] + "fitted = Flow(measure)\n"
    (workspace / "flows" / "program.py").write_text(program)
    notes: list[str] = []
    async with spindle.open(workspace, note=notes.append) as app:
        assert await app.tools() == []
    assert [note.split(";")[0] for note in notes] == [
        "flows/program.py: Measure is left out, as it is a BaseNode of the package pocketflow",
        "flows/program.py: Shorten is left out, as it is a AsyncNode of the package pocketflow",
        "flows/program.py: measure is left out, as it is a BaseNode of the package pocketflow",
        "flows/program.py: fitted is left out, as it is a Flow of the package pocketflow",
    ]
    assert "`from spindle.compat.pocketflow import Flow`" in notes[-1]


async def test_a_line_of_an_interface_that_says_nothing_is_noted(workspace: Path) -> None:
    (workspace / "flows" / "node.py").write_text(
        'from spindle.flows import Node\n\n\nclass Odd(Node):\n    """Be odd.\n\n    Interface:\n'
        '    - Reads: the text of it\n    """\n'
    )
    notes: list[str] = []
    async with spindle.open(workspace, note=notes.append) as app:
        assert [tool.name for tool in await app.tools()] == ["odd"]
    assert notes == [
        "flows/node.py: the docstring of Odd has a line that says no key: - Reads: the text of it"
    ]
