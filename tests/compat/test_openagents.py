"""Programs written for OpenAgents' loaders, with another import."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import spindle
from spindle.compat.openagents import (
    AgentTool,
    EventToolLoader,
    NetworkEvent,
    NetworkToolCollector,
    WorkspaceToolLoader,
)

TOOLS = '''
from typing import Dict, List, Optional

from spindle.compat.openagents import tool


@tool
async def create_task(title: str, priority: int = 1, tags: Optional[List[str]] = None) -> dict:
    """Make a new task.

    Args:
        title: its name
    """
    return {"title": title, "priority": priority, "tags": tags}


@tool(name="web_search", description="Search the web.")
def search(query: str) -> str:
    return f"found {query}"


@tool(input_schema={"type": "object", "properties": {"data": {"type": "object"}}, "required": ["data"]})
def keys(data: Dict[str, str]) -> list:
    """List the keys."""
    return sorted(data)


@tool
def fail() -> str:
    """Fail."""
    raise ValueError("on purpose")


def helper() -> str:
    return "no tool"
'''

EVENTS = """
asyncapi: 3.0.0
info: { title: Tasks, version: 1.0.0 }
channels:
  task/delegate:
    address: task.delegate
    messages:
      task.delegate: { $ref: '#/components/messages/TaskDelegate' }
  odd:
    address: task.odd
    messages:
      odd: { payload: { $ref: '#/components/schemas/NotThere' } }
operations:
  delegateTask:
    action: send
    channel: { $ref: '#/channels/task~1delegate' }
    summary: Give a task to another agent
    x-agent-tool: { enabled: true, name: delegate_task }
  byItsId:
    action: send
    channel: { $ref: '#/channels/task~1delegate' }
    summary: Named by its id
    x-agent-tool: { enabled: true, description: Described elsewhere }
  sendAnything:
    action: send
    channel: { $ref: '#/channels/odd' }
    x-agent-tool: { enabled: true }
  switchedOff:
    action: send
    channel: { $ref: '#/channels/task~1delegate' }
    x-agent-tool: { enabled: false }
  unmarked:
    action: send
    channel: { $ref: '#/channels/task~1delegate' }
components:
  messages:
    TaskDelegate:
      name: task.delegate
      payload: { $ref: '#/components/schemas/Delegate' }
  schemas:
    Delegate:
      type: object
      required: [task_id, kind]
      properties:
        task_id: { type: string, description: its number }
        kind: { type: string, enum: [download, analyze, convert] }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "work.py").write_text(TOOLS)
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "tasks.yaml").write_text(EVENTS)
    return tmp_path


class Network:
    """A network with mods that keeps the events it is given."""

    def __init__(self, **mods: Any) -> None:
        self.mods = mods
        self.events: list[NetworkEvent] = []

    async def emit_event(self, event: NetworkEvent) -> None:
        self.events.append(event)


async def test_functions_of_the_folder_are_tools_that_can_be_executed(folder: Path) -> None:
    loader = WorkspaceToolLoader(str(folder))
    tools = {tool.name: tool for tool in loader.load_tools()}
    assert sorted(tools) == ["create_task", "fail", "keys", "web_search"]
    schema = tools["create_task"].input_schema
    assert schema["required"] == ["title"]
    assert schema["properties"]["title"] == {"type": "string", "description": "its name"}
    assert schema["properties"]["priority"]["type"] == "integer"
    assert tools["create_task"].description == "Make a new task."
    assert tools["web_search"].description == "Search the web."
    made = await tools["create_task"].execute(title="paint", tags=["blue"])
    assert made == {"title": "paint", "priority": 1, "tags": ["blue"]}
    assert await tools["web_search"].execute(query="fences") == "found fences"
    assert await tools["keys"].execute(data={"b": "1", "a": "2"}) == ["a", "b"]
    with pytest.raises(spindle.ToolError, match="on purpose"):
        await tools["fail"].execute()
    with pytest.raises(spindle.SpindleError, match="title"):
        await tools["create_task"].execute(priority=2)
    loader.close()
    with pytest.raises(spindle.SpindleError, match="closed"):
        await tools["web_search"].execute(query="x")


def test_tools_run_from_several_loops_and_side_by_side(folder: Path) -> None:
    (folder / "tools" / "meeting.py").write_text(
        "import threading\n"
        "from spindle import tool\n"
        "both = threading.Barrier(2, timeout=60)\n"
        "@tool\n"
        "def meet() -> str:\n"
        '    """Wait for another."""\n'
        "    both.wait()\n"
        "    return 'met'\n"
    )
    loader = WorkspaceToolLoader(folder)
    [meet] = [tool for tool in loader.load_tools() if tool.name == "meet"]
    met: list[str] = []
    threads = [threading.Thread(target=lambda: met.append(asyncio.run(meet.execute()))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert met == ["met", "met"]
    loader.close()


def test_missing_and_empty_folders_have_no_tools(tmp_path: Path) -> None:
    assert WorkspaceToolLoader(tmp_path).load_tools() == []
    assert EventToolLoader(tmp_path).load_tools() == []
    (tmp_path / "tools").mkdir()
    (tmp_path / "events").mkdir()
    collector = NetworkToolCollector(None, workspace_path=str(tmp_path))
    assert collector.collect_all_tools() == []
    assert collector.to_mcp_tools_filtered(["x"]) == []
    collector.close()


def test_what_cannot_be_read_is_logged_and_left_out(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "tools" / "broken.py").write_text("def (:\n")
    (folder / "tools" / "old.py").write_text("from openagents_of_old import tool\n")
    (folder / "events" / "broken.yaml").write_text("asyncapi: [\n")
    loaders = WorkspaceToolLoader(folder), EventToolLoader(folder)
    with caplog.at_level(logging.ERROR, "spindle"):
        names = [tool.name for loader in loaders for tool in loader.load_tools()]
    assert {"web_search", "delegate_task"} <= set(names)
    said = caplog.text
    assert "broken.py" in said
    assert "openagents_of_old" in said
    assert "broken.yaml" in said
    for loader in loaders:
        loader.close()


def test_an_edit_is_seen_when_the_folder_is_loaded_again(folder: Path) -> None:
    loader = WorkspaceToolLoader(folder)
    assert "added" not in [tool.name for tool in loader.load_tools()]
    (folder / "tools" / "more.py").write_text(
        'from spindle import tool\n@tool\ndef added() -> str:\n    """New."""\n    return "new"\n'
    )
    assert "added" in [tool.name for tool in loader.load_tools()]
    loader.close()


async def test_operations_that_say_so_are_tools_that_emit(folder: Path) -> None:
    network = Network()
    loader = EventToolLoader(str(folder), network=network)
    tools = {tool.name: tool for tool in loader.load_tools()}
    assert sorted(tools) == ["byItsId", "delegate_task", "sendAnything"]
    assert tools["delegate_task"].description == "Give a task to another agent"
    assert tools["byItsId"].description == "Described elsewhere"
    schema = tools["delegate_task"].input_schema
    assert schema["required"] == ["task_id", "kind"]
    assert schema["properties"]["kind"]["enum"] == ["download", "analyze", "convert"]
    done = await tools["delegate_task"].execute(task_id="7", kind="analyze")
    assert (done["channel"], done["type"]) == ("task.delegate", "task.delegate")
    assert network.events == [NetworkEvent("task.delegate", {"task_id": "7", "kind": "analyze"})]
    await tools["sendAnything"].execute(whatever=[1, 2])
    assert network.events[-1].payload == {"whatever": [1, 2]}
    with pytest.raises(spindle.SpindleError, match="kind"):
        await tools["delegate_task"].execute(task_id="7", kind="eat")
    assert len(network.events) == 2
    loader.close()


async def test_emitted_events_are_heard_in_the_process_too(folder: Path) -> None:
    loader = EventToolLoader(folder)
    [delegate] = [tool for tool in loader.load_tools() if tool.name == "delegate_task"]
    (folder / "spindle.toml").touch()
    async with spindle.open(folder) as app:
        heard = app.events("task.*")
        await delegate.execute(task_id="8", kind="download")
        async with asyncio.timeout(60):
            event = await anext(heard)
        assert event.data == {"task_id": "8", "kind": "download"}
    loader.close()


ASKING = """
asyncapi: 3.0.0
info: { title: Prices, version: 1.0.0 }
channels:
  ask: { address: price.ask, messages: { Ask: { payload: { type: object } } } }
  tell: { address: price.tell, messages: { Tell: { payload: { type: object } } } }
operations:
  ask_price:
    action: send
    channel: { $ref: '#/channels/ask' }
    reply: { channel: { $ref: '#/channels/tell' } }
    x-agent-tool: true
"""


async def test_a_question_is_told_to_the_network_as_the_event_it_was(tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "prices.yaml").write_text(ASKING)
    (tmp_path / "spindle.toml").touch()
    network = Network()
    loader = EventToolLoader(tmp_path, network)
    [ask] = loader.load_tools()
    async with spindle.open(tmp_path) as app:
        heard = app.events("price.ask")
        asking = asyncio.create_task(ask.execute(what="tea"))
        async with asyncio.timeout(60):
            question = await anext(heard)
            await app.emit("price.tell", {"price": 3}, extensions=question.extensions)
            answer = await asking
    assert answer["data"] == {"price": 3}
    assert network.events == [NetworkEvent("price.ask", {"what": "tea"})]
    loader.close()


def test_a_network_that_takes_no_events_is_refused_where_there_are_some(folder: Path) -> None:
    loader = EventToolLoader(folder, network=SimpleNamespace(mods={}))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="has no method emit_event"):
        loader.load_tools()
    loader.close()


def mod(*names: str) -> Any:
    async def answer(**arguments: Any) -> str:
        return f"from a mod: {arguments}"

    tools = [
        SimpleNamespace(name=name, description="Of a mod.", input_schema={"type": "object"}, func=answer)
        for name in names
    ]
    return SimpleNamespace(get_tools=lambda: tools)


async def test_the_collector_puts_mods_tools_and_events_together(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    collector = NetworkToolCollector(Network(wiki=mod("edit_page")), workspace_path=folder)
    tools = {tool.name: tool for tool in collector.collect_all_tools()}
    assert {"edit_page", "web_search", "delegate_task"} <= set(tools)
    assert all(isinstance(tool, AgentTool) for tool in tools.values())
    assert await tools["edit_page"].execute(page=1) == "from a mod: {'page': 1}"

    chosen = collector.filter_tools(["web_search", "edit_page", "fail"], ["fail"])
    assert sorted(tool.name for tool in chosen) == ["edit_page", "web_search"]
    assert len(collector.filter_tools(excluded_tools=["fail"])) == len(tools) - 1
    assert collector.filter_tools([]) == []
    with caplog.at_level(logging.WARNING, "spindle"):
        assert [tool.name for tool in collector.filter_tools(["web_search", "nonsense"], ["gone"])] == [
            "web_search"
        ]
    assert "exposed_tools names 'nonsense'" in caplog.text
    assert "excluded_tools names 'gone'" in caplog.text
    [listed] = collector.to_mcp_tools_filtered(exposed_tools=["web_search"])
    assert listed["name"] == "web_search"
    assert listed["description"] == "Search the web."
    assert listed["inputSchema"]["required"] == ["query"]
    collector.close()


def test_two_tools_of_one_name_stop_the_start(folder: Path) -> None:
    collector = NetworkToolCollector(Network(wiki=mod("web_search")), workspace_path=folder)
    with pytest.raises(
        ValueError, match="Tool name conflict: 'web_search' comes from 'mod:wiki' and from 'workspace'"
    ):
        collector.collect_all_tools()
    collector.close()
    (folder / "tools" / "again.py").write_text(
        "from spindle import tool\n@tool\ndef web_search() -> str:\n    'Another.'\n    return ''\n"
    )
    loader = WorkspaceToolLoader(folder)
    with pytest.raises(ValueError, match=r"Tool name conflict: .*web_search.*work\.py"):
        loader.load_tools()
    loader.close()


def test_a_loader_that_nobody_holds_ends_its_thread(folder: Path) -> None:
    before = set(threading.enumerate())
    loader = WorkspaceToolLoader(folder)
    tools = loader.load_tools()
    [thread] = [it for it in threading.enumerate() if it not in before and it.name == "spindle"]
    del loader
    assert (
        asyncio.run(next(tool for tool in tools if tool.name == "web_search").execute(query="x")) == "found x"
    )
    del tools
    gc.collect()
    thread.join(60)
    assert not thread.is_alive()
