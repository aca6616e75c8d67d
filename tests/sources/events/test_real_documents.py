"""AsyncAPI's own examples, as they are published, with every operation made a tool."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from event_documents import Workspace

from servers import brokers
from servers.running import PATIENCE, REPOSITORY, missing

EXAMPLES = REPOSITORY / ".node" / "asyncapi"
# What a call would need and the example does not give: a protocol that nothing here speaks.
LEFT_OUT = {"mercure-asyncapi.yml": 2}


def example(name: str) -> dict[str, Any]:
    if not EXAMPLES.is_dir():
        missing("the examples of AsyncAPI are not there: `make node` gets them")
    content = yaml.safe_load((EXAMPLES / name).read_text())
    for operation in content["operations"].values():
        operation["x-agent-tool"] = True
    return content


def names() -> list[str]:
    found = sorted(path.name for path in EXAMPLES.glob("*-asyncapi.yml"))
    return found or ["streetlights-mqtt-asyncapi.yml"]


@pytest.mark.npm
@pytest.mark.parametrize("name", names())
async def test_every_operation_of_a_published_example_is_a_tool(workspace: Workspace, name: str) -> None:
    content = example(name)
    workspace.write("events/a.json", json.dumps(content, default=str))
    async with workspace.open() as app:
        [report] = await app.sync()
        assert report.error is None
        tools = [await app.show(item.name) for item in await app.tools()]
    assert len(tools) == len(content["operations"]) - LEFT_OUT.get(name, 0)
    assert len(workspace.notes) == LEFT_OUT.get(name, 0), workspace.notes
    for tool in tools:
        jsonschema_rs.validator_for(tool.input_schema)
        assert tool.description


@pytest.mark.npm
@pytest.mark.brokers
async def test_the_streetlights_of_the_examples_can_be_dimmed(workspace: Workspace, tmp_path: Path) -> None:
    with brokers.mosquitto(tmp_path / "broker") as broker:
        workspace.settings(servers={"production": {"url": f"mqtt://{broker.host}"}})
        workspace.write("events/a.json", example("streetlights-mqtt-asyncapi.yml"))
        async with workspace.open() as app:
            await app.sync()
            waiting = asyncio.create_task(app.call("receiveLightMeasurement", streetlightId="7"))
            sent = await app.call("dimLight", streetlightId="7", percentage=30)
            assert sent.structured["channel"] == "smartylighting/streetlights/1/0/action/7/dim"
            assert sent.structured["acknowledged"] == {"qos": 1}
            measured = "smartylighting/streetlights/1/0/event/7/lighting/measured"
            async with asyncio.timeout(PATIENCE):
                while not waiting.done():
                    await _publish(broker.host, measured, b'{"lumens": 12}')
                    await asyncio.wait([waiting], timeout=0.2)
    assert waiting.result().structured["data"] == {"lumens": 12}


async def _publish(host: str, topic: str, body: bytes) -> None:
    """As the street light itself would, knowing nothing of us."""
    import zmqtt

    name, _, port = host.partition(":")
    client = zmqtt.MQTTClient(host=name, port=int(port), client_id="light")
    await client.connect()
    await client.publish(topic, body, qos=zmqtt.QoS.AT_LEAST_ONCE)
    await client.disconnect()
