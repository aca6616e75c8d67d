"""Run by the interpreter of an environment that has pydantic-ai: pydantic_ai_client.py URL|FOLDER SPINDLE
TOOL TEXT. An agent is given the tools and calls one, as its model decides, which is a function here. Prints
what it found as JSON."""

import asyncio
import json
import sys

from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel


async def main() -> None:
    target, spindle, tool, text = sys.argv[1:]
    if not target.startswith("http"):
        target = StdioTransport(spindle, ["-w", target, "serve", "--stdio", "--trust"], keep_alive=False)
    offered: set[int] = set()

    def decide(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        offered.add(len(info.function_tools))
        last = messages[-1].parts[-1]
        if isinstance(last, ToolReturnPart):
            return ModelResponse(parts=[TextPart(json.dumps(last.content))])
        return ModelResponse(parts=[ToolCallPart(tool, {"text": text})])

    async with Agent(FunctionModel(decide), toolsets=[MCPToolset(target)]) as agent:
        result = await agent.run("Say it.")
    (tools,) = offered
    print(json.dumps({"tools": tools, "text": json.loads(result.output)}))


asyncio.run(main())
