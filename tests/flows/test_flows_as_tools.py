"""Flows in the catalog: from files and from Python, called like any tool."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import spindle
from servers.flow_tools import TOOLS
from spindle import Finished, Paused, Principal
from spindle.calls.caller import CallOptions
from spindle.errors import FlowError, InvalidArgumentsError
from spindle.flows.interface import ERROR_ACTIONS, of_tool

Save = Callable[..., Path]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "spindle.toml").touch()
    (tmp_path / "flows").mkdir()
    return tmp_path


@pytest.fixture
def save(workspace: Path) -> Save:
    def saved(name: str, nodes: list[dict[str, Any]], **more: Any) -> Path:
        ids = [node["id"] for node in nodes]
        edges = [{"from": one, "to": other} for one, other in itertools.pairwise(ids)]
        path = workspace / "flows" / f"{name}.json"
        path.write_text(json.dumps({"version": 1, "nodes": nodes, "edges": edges, **more}))
        return path

    return saved


SHOUT = '''
from spindle.flows import Flow, Node, flow_safe


@flow_safe
class Shout(Node):
    """Make a text loud.

    Reads:
        text (str): what to shout
        language (str, optional): not used
    Writes:
        loud (str): the text, louder
        length (int): how long it is
    Params:
        marks (int = 1): how many exclamation marks
    Actions:
        default: it is loud
        empty: there was nothing to shout
    """

    def prep(self, shared):
        return shared["text"]

    def exec(self, text):
        return text.upper() + "!" * self.params.get("marks", 1)

    def post(self, shared, text, loud):
        shared["loud"], shared["length"] = loud, len(loud)
        return None if text else "empty"


class _Hidden(Node):
    """Reads:
    nothing
    """


class Silent(Node):
    pass


twice = Flow(Shout(), name="shout_once", inputs={"text": {"type": "string"}}, outputs={"loud": "${loud}"})
'''


async def test_a_file_is_a_tool(workspace: Path, save: Save) -> None:
    save(
        "greet",
        [{"id": "upper", "tool": "upper", "params": {"text": "hello ${name}"}}],
        description="Greet somebody.",
        inputs={"name": {"type": "string", "description": "whom"}},
        outputs={"greeting": {"value": "${upper}", "type": "string"}},
    )
    async with spindle.open(workspace, tools=TOOLS) as app:
        tool = await app.show("greet")
        assert (tool.kind, tool.source, tool.description) == ("flows", "flows", "Greet somebody.")
        assert tool.spec.place == "flows/greet.json"
        assert tool.input_schema["required"] == ["name"]
        assert tool.output_schema is not None
        assert tool.output_schema["properties"] == {"greeting": {"type": "string"}}
        result = await app.call("greet", name="ada")
        assert result.structured == {"greeting": "HELLO ADA"}
        with pytest.raises(InvalidArgumentsError, match="name"):
            await app.call("greet")
        assert next(found.name for found in await app.search("greet somebody")) == "greet"


async def test_files_are_read_again_when_they_change(workspace: Path, save: Save) -> None:
    save("f", [{"id": "a", "tool": "upper", "params": {"text": "one"}}])
    async with spindle.open(workspace, tools=TOOLS) as app:
        assert (await app.call("f")).text == "ONE"
        save("f", [{"id": "a", "tool": "upper", "params": {"text": "two"}}])
        save("g", [{"id": "a", "tool": "upper", "params": {"text": "new"}}])
        assert (await app.call("f")).text == "TWO"
        assert (await app.call("g")).text == "NEW"


async def test_a_broken_file_is_named_and_the_others_stay(workspace: Path, save: Save) -> None:
    save("good", [{"id": "a", "tool": "upper", "params": {"text": "x"}}])
    (workspace / "flows" / "bad.json").write_text('{"version": 1,\n "nodes": [{"id": "a", "tol": "x"}]}')
    (workspace / "flows" / "worse.py").write_text("import nothing_of_that_name\n")
    save("twice", [{"id": "a", "tool": "upper"}, {"id": "a", "tool": "upper"}])
    notes: list[str] = []
    async with spindle.open(workspace, tools=TOOLS, note=notes.append) as app:
        assert (await app.call("good")).text == "X"
    said = "\n".join(notes)
    assert "flows/bad.json:2" in said
    assert "'tol'" in said
    assert "worse.py cannot be imported" in said
    assert "flows/twice.json: two nodes have the id 'a'" in said


async def test_flows_call_flows_for_the_same_principal(workspace: Path, save: Save) -> None:
    save("inner", [{"id": "w", "tool": "whose"}])
    save("middle", [{"id": "i", "tool": "inner"}])
    save("outer", [{"id": "m", "tool": "middle"}])
    async with spindle.open(workspace, tools=TOOLS) as app:
        assert (await app.call("outer", {}, CallOptions(Principal("ann")))).text == "ann"


async def test_a_flow_that_calls_itself_is_stopped(workspace: Path, save: Save) -> None:
    save("a", [{"id": "b", "tool": "b"}])
    save("b", [{"id": "a", "tool": "a"}])
    async with spindle.open(workspace, tools=TOOLS) as app:
        with pytest.raises(FlowError, match=r"flows call each other 17 deep: a → b → a → … → a"):
            await app.call("a")


async def test_a_pause_deep_inside_goes_on_at_its_node(workspace: Path, save: Save) -> None:
    save("inner", [{"id": "u", "tool": "upper", "params": {"text": "x"}}, {"id": "q", "ask": "sure?"}])
    save(
        "outer",
        [{"id": "first", "tool": "inner"}, {"id": "s", "tool": "same", "params": {"value": "${first}"}}],
    )
    async with spindle.open(workspace, tools=TOOLS) as app:
        paused = await app.run("outer")
        assert isinstance(paused, Paused)
    async with spindle.open(workspace, tools=TOOLS) as app:
        done = await app.resume(paused.pauses[0].token, "yes")
        assert isinstance(done, Finished)
        assert done.result.structured == {"value": "yes"}
        called = [call.tool for call in await app.history() if call.outcome == "ok"]
    assert called.count("upper") == 1


async def test_the_error_of_a_flow_is_the_error_of_what_failed(workspace: Path, save: Save) -> None:
    save("f", [{"id": "a", "tool": "fail", "params": {"why": "tired"}}])
    async with spindle.open(workspace, tools=TOOLS) as app:
        for _ in range(10):  # and it never counts against the flows themselves
            with pytest.raises(spindle.ToolError, match="ValueError: tired") as caught:
                await app.call("f")
        assert caught.value.tool == "fail"


async def test_a_node_of_python_is_a_tool(workspace: Path) -> None:
    (workspace / "flows" / "shout.py").write_text(SHOUT)
    async with spindle.open(workspace, tools=TOOLS) as app:
        assert {tool.name for tool in await app.tools(kind="flows")} == {"shout", "shout_once"}
        shout = await app.show("shout")
        assert shout.input_schema["required"] == ["text"]
        assert shout.input_schema["properties"]["marks"]["default"] == 1
        assert shout.pure
        result = await app.call("shout", text="hey", marks=2)
        assert result.structured == {"loud": "HEY!!", "length": 5}
        assert (await app.call("shout_once", text="hey")).structured == {"loud": "HEY!"}


async def test_a_file_cannot_tell_which_kind_a_node_is(workspace: Path, save: Save) -> None:
    (workspace / "flows" / "shout.py").write_text(SHOUT)
    nodes = [
        {"id": "shout", "tool": "shout", "params": {"text": "${word}", "marks": 3}},
        {"id": "count", "tool": "count", "params": {"text": "${loud}"}},
        {"id": "none", "tool": "same", "params": {"value": "empty"}},
    ]
    path = save("f", nodes, inputs={"word": {"type": "string"}})
    document = json.loads(path.read_text())
    document["edges"] = [{"from": "shout", "to": "count"}, {"from": "shout", "action": "empty", "to": "none"}]
    path.write_text(json.dumps(document))
    async with spindle.open(workspace, tools=TOOLS) as app:
        assert (await app.call("f", word="hi")).structured == {"words": 1, "letters": 5}
        assert (await app.call("f", word="")).structured == {"value": "empty"}, "its action goes with it"
        for name in ("shout", "upper", "f"):
            interface = of_tool(await app.show(name))
            assert interface.to_dict().keys() == {
                "name", "description", "reads", "writes", "params", "actions", "pure", "source", "version",
            }  # fmt: skip
            assert interface.actions.keys() >= ERROR_ACTIONS.keys()
        shout = of_tool(await app.show("shout"))
        assert [key.name for key in shout.reads] == ["text", "language"]
        assert [key.required for key in shout.reads] == [True, False]
        assert [key.name for key in shout.params] == ["marks"]
        assert [(key.name, key.type) for key in shout.writes] == [("loud", "string"), ("length", "integer")]
        assert shout.actions["empty"] == "there was nothing to shout"
        assert "marks (integer = 1): how many exclamation marks" in shout.to_text()


async def test_progress_is_told_node_by_node(workspace: Path, save: Save) -> None:
    save("f", [{"id": name, "tool": "upper", "params": {"text": "x"}} for name in ("a", "b", "c")])
    told: list[tuple[float, float | None, str | None]] = []

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    async with spindle.open(workspace, tools=TOOLS) as app:
        await app.call("f", {}, CallOptions(on_progress=heard))
    assert told == [(1, 3, "a"), (2, 3, "b"), (3, 3, "c")]


async def test_many_runs_at_once(workspace: Path, save: Save) -> None:
    import asyncio

    save("inner", [{"id": "u", "tool": "add", "params": {"a": "${n}"}}], inputs={"n": {"type": "integer"}})
    save("outer", [{"id": "i", "tool": "inner", "params": {"n": "${n}"}}], inputs={"n": {"type": "integer"}})
    async with spindle.open(workspace, tools=TOOLS) as app:
        results = await asyncio.gather(*(app.call("outer", n=number) for number in range(100)))
    assert [result.value for result in results] == [number + 1 for number in range(100)]


async def test_nodes_of_a_flow_that_is_called_are_not_taken_for_the_callers(
    workspace: Path, save: Save
) -> None:
    save("inner", [{"id": "word", "tool": "upper", "params": {"text": "inner"}}])
    nodes = [
        {"id": "called", "tool": "inner"},
        {"id": "word", "tool": "upper", "params": {"text": "outer"}},
        {"id": "last", "tool": "same", "params": {"value": "${word}"}},
    ]
    save("outer", nodes)
    async with spindle.open(workspace, tools=TOOLS) as app:
        done = await app.run_flow("outer")
        _, _, events = await app.flows.trace(done.run_id)
        assert [(event.node, event.output) for event in events[:2]] == [
            ("called", "INNER"),
            ("word", "OUTER"),
        ]
        again = await app.flows.run("outer", start="word", reuse=done.run_id)
        assert isinstance(again, Finished)
        assert again.result.structured == {"value": "OUTER"}
        left = await app.flows.left(done.run_id, app.flows.library.find("outer").definition, before="word")  # type: ignore[union-attr]
        assert left["called"] == "INNER"


BROKEN = '''
from spindle.flows import Flow, Node


def deeper(text):
    raise LookupError(text)


class Broken(Node):
    """Fail.

    Reads:
        text (str): what to say
    """

    def prep(self, shared):
        return shared["text"]

    def exec(self, text):
        return deeper(text)


failing = Flow(Broken(), name="failing", inputs={"text": {"type": "string"}})
'''


async def test_a_node_written_in_python_says_where_it_failed(workspace: Path) -> None:
    (workspace / "flows" / "broken.py").write_text(BROKEN)
    async with spindle.open(workspace) as app:
        result = await app.call("broken", text="lost")
        assert (result.is_error, result.text) == (True, "LookupError: lost")
        for run in (app.call("failing", text="lost"), app.run_flow("failing --text=lost")):
            with pytest.raises(FlowError, match="node 'broken' failed: LookupError: lost") as caught:
                await run
            for failure in (result.failure, caught.value.failure):
                assert failure is not None
                place = (failure.file, failure.line, failure.function)
                assert place == ("flows/broken.py", 6, "deeper")
