"""What the conformance suite wants that a Python function cannot offer: resources, prompts, completions and
questions to the client. An MCP server of its own, for Spindle to pass on."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import sys
from pathlib import Path
from typing import Any

import mcp_types as t
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

sys.path.insert(0, str(Path(__file__).parent / "tools"))
from fixtures import png

KEY = b"a key that only this process knows"
bus = InMemorySubscriptionBus()


def form(message: str, properties: dict[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": required or list(properties)}
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}


def sampling(prompt: str, tokens: int = 100) -> dict[str, Any]:
    message = {"role": "user", "content": {"type": "text", "text": prompt}}
    return {"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": tokens}}


TEXT = {"type": "string"}
ROOTS = {"method": "roots/list", "params": {}}
NAME = form("What is your name?", {"name": TEXT})
DEFAULTS = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
CHOICES = [{"const": f"value{n}", "title": f"{word} Option"} for n, word in ((1, "First"), (2, "Second"))]
ENUMS = {
    "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
    "titledSingle": {"type": "string", "oneOf": CHOICES},
    "legacyEnum": {
        "type": "string",
        "enum": ["opt1", "opt2", "opt3"],
        "enumNames": ["Option One", "Option Two", "Option Three"],
    },
    "untitledMulti": {
        "type": "array",
        "items": {"type": "string", "enum": ["option1", "option2", "option3"]},
    },
    "titledMulti": {"type": "array", "items": {"anyOf": CHOICES}},
}
CONTACT = {
    "username": {"type": "string", "description": "User's response"},
    "email": {"type": "string", "description": "User's email address"},
}
RICH_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": TEXT, "city": TEXT},
        }
    },
    "properties": {
        "name": TEXT,
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": TEXT,
        "email": TEXT,
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
HEADERS = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "priority": {"type": "integer", "x-mcp-header": "Priority"},
        "query": TEXT,
    },
}


def sealed(state: str) -> str:
    return f"{state}.{hmac.new(KEY, state.encode(), hashlib.sha256).hexdigest()}"


def opened(token: str | None) -> str:
    state, _, mark = (token or "").rpartition(".")
    if not hmac.compare_digest(mark, sealed(state).rpartition(".")[2]):
        raise MCPError(t.INVALID_PARAMS, "requestState was changed")
    return state


class Asking(Exception):
    def __init__(self, result: t.InputRequiredResult) -> None:
        self.result = result


async def ask(ctx: Any, params: Any, requests: dict[str, Any], state: str | None = None) -> dict[str, Any]:
    """The client's answers, by the way of its era."""
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        given = {
            key: value.model_dump(by_alias=True, exclude_none=True) if hasattr(value, "model_dump") else value
            for key, value in (params.input_responses or {}).items()
        }
        if set(requests) <= set(given) and all(fits(requests[key], given[key]) for key in requests):
            return given
        raise Asking(
            t.InputRequiredResult.model_validate(
                {
                    "resultType": "input_required",
                    "inputRequests": requests,
                    **({"requestState": sealed(state)} if state is not None else {}),
                }
            )
        )
    kinds = {
        "elicitation/create": (t.ElicitRequest, t.ElicitResult),
        "sampling/createMessage": (t.CreateMessageRequest, t.CreateMessageResult),
        "roots/list": (t.ListRootsRequest, t.ListRootsResult),
    }
    answers: dict[str, Any] = {}
    for key, request in requests.items():
        kind, result = kinds[request["method"]]
        related = ServerMessageMetadata(related_request_id=ctx.request_id)
        answer = await ctx.session.send_request(kind.model_validate(request), result, metadata=related)
        answers[key] = answer.model_dump(by_alias=True, exclude_none=True)
    return answers


def fits(request: dict[str, Any], answer: dict[str, Any]) -> bool:
    wanted = {"elicitation/create": "action", "sampling/createMessage": "content", "roots/list": "roots"}
    return wanted[request["method"]] in answer


def said(text: str) -> t.CallToolResult:
    return t.CallToolResult(content=[t.TextContent(text=text)])


async def call(ctx: Any, params: t.CallToolRequestParams) -> Any:
    arguments = params.arguments or {}
    match params.name:
        case "test_sampling":
            answers = await ask(ctx, params, {"a": sampling(arguments["prompt"])})
            return said(f"LLM response: {answers['a']['content'].get('text')}")
        case "test_elicitation":
            answers = await ask(ctx, params, {"a": form(arguments["message"], CONTACT)})
            return said(f"User response: {answers['a']}")
        case "test_elicitation_sep1034_defaults" | "test_elicitation_sep1330_enums":
            properties = DEFAULTS if params.name.endswith("defaults") else ENUMS
            answers = await ask(ctx, params, {"a": form("Please fill in", properties)})
            answer = answers["a"]
            return said(f"Elicitation completed: action={answer['action']}, content={answer.get('content')}")
        case "test_input_required_result_elicitation":
            answers = await ask(ctx, params, {"user_name": NAME})
            return said(f"Hello, {answers['user_name'].get('content', {}).get('name')}!")
        case "test_input_required_result_sampling":
            answers = await ask(ctx, params, {"capital_question": sampling("What is the capital of France?")})
            return said(f"The model said: {answers['capital_question']['content']}")
        case "test_input_required_result_list_roots":
            answers = await ask(ctx, params, {"client_roots": ROOTS})
            return said(f"Roots: {answers['client_roots']['roots']}")
        case "test_input_required_result_request_state":
            if params.input_responses:
                opened(params.request_state)
            confirm = form("Please confirm", {"ok": {"type": "boolean"}})
            await ask(ctx, params, {"confirm": confirm}, "asked")
            return said("state-ok: the state came back as it was")
        case "test_input_required_result_tampered_state":
            if params.request_state is not None:
                opened(params.request_state)
            await ask(ctx, params, {"confirm": form("Please confirm", {"ok": {"type": "boolean"}})}, "asked")
            return said("state-ok")
        case "test_input_required_result_multiple_inputs":
            requests = {
                "user_name": NAME,
                "greeting": sampling("Generate a greeting", 50),
                "client_roots": ROOTS,
            }
            answers = await ask(ctx, params, requests, "many")
            return said(f"All came: {sorted(answers)}")
        case "test_input_required_result_multi_round":
            state = opened(params.request_state) if params.request_state else "start"
            if state == "start" or ("step1" not in (params.input_responses or {}) and state == "one"):
                await ask(ctx, params, {"step1": form("Step 1: What is your name?", {"name": TEXT})}, "one")
            color = form("Step 2: What is your favorite color?", {"color": TEXT})
            await ask(ctx, params, {"step2": color}, "two")
            return said("Both came.")
        case "test_input_required_result_capabilities":
            capabilities = ctx.session.client_capabilities
            requests: dict[str, Any] = {}
            if capabilities is not None and capabilities.elicitation is not None:
                requests["user_name"] = NAME
            if capabilities is not None and capabilities.sampling is not None:
                requests["greeting"] = sampling("Generate a greeting", 50)
            await ask(ctx, params, requests)
            return said("Answered.")
        case "test_missing_capability":
            await ask(ctx, params, {"greeting": sampling("Generate a greeting", 50)})
            return said("Answered.")
        case "test_streaming_elicitation":
            await ctx.session.report_progress(1, 2, "about to ask")
            await ask(ctx, params, {"user_name": NAME})
            return said("Answered.")
        case "json_schema_2020_12_tool" | "test_custom_headers":
            return said(f"Called with {arguments}")
        case "test_touch_resource":
            await bus.publish(ResourceUpdated(uri="test://watched-resource"))
            if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
                await ctx.session.send_resource_updated("test://watched-resource")
            return said("Touched.")
        case "test_trigger_tool_change":
            await bus.publish(ToolsListChanged())
            if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
                await ctx.session.send_tool_list_changed()
            return said("Told.")
        case "test_change_prompts":
            await bus.publish(PromptsListChanged())
            if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
                await ctx.session.send_prompt_list_changed()
            return said("Told.")
        case "protocol_error_job":
            await asyncio.sleep(1)
            raise MCPError(-32050, "the job could not be made", {"job": 7})
    raise MCPError(t.INVALID_PARAMS, f"Unknown tool: {params.name}")


ARGUMENTS: dict[str, Any] = {
    "test_sampling": {"type": "object", "properties": {"prompt": TEXT}, "required": ["prompt"]},
    "test_elicitation": {"type": "object", "properties": {"message": TEXT}, "required": ["message"]},
    "json_schema_2020_12_tool": RICH_SCHEMA,
    "test_custom_headers": HEADERS,
}
NAMES = (
    "test_sampling",
    "test_elicitation",
    "test_elicitation_sep1034_defaults",
    "test_elicitation_sep1330_enums",
    "test_input_required_result_elicitation",
    "test_input_required_result_sampling",
    "test_input_required_result_list_roots",
    "test_input_required_result_request_state",
    "test_input_required_result_tampered_state",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_multi_round",
    "test_input_required_result_capabilities",
    "test_missing_capability",
    "test_streaming_elicitation",
    "json_schema_2020_12_tool",
    "test_custom_headers",
    "test_touch_resource",
    "test_trigger_tool_change",
    "test_change_prompts",
    "protocol_error_job",
)


async def list_tools(_ctx: Any, _params: Any) -> t.ListToolsResult:
    empty = {"type": "object", "properties": {}}
    return t.ListToolsResult(
        tools=[
            t.Tool(name=name, description=f"A fixture: {name}.", input_schema=ARGUMENTS.get(name, empty))
            for name in NAMES
        ]
    )


async def on_call(ctx: Any, params: t.CallToolRequestParams) -> Any:
    try:
        return await call(ctx, params)
    except Asking as asking:
        return asking.result


RESOURCES = {
    "test://static-text": ("text/plain", "This is the content of the static text resource."),
    "test://static-binary": ("image/png", base64.b64decode(png())),
    "test://watched-resource": ("text/plain", "A resource that changes."),
    "test://example-resource": ("text/plain", "An example."),
}


async def list_resources(_ctx: Any, _params: Any) -> t.ListResourcesResult:
    return t.ListResourcesResult(
        resources=[
            t.Resource(
                uri=uri, name=uri.removeprefix("test://"), description=f"The fixture {uri}.", mime_type=kind
            )
            for uri, (kind, _) in RESOURCES.items()
        ]
    )


async def list_templates(_ctx: Any, _params: Any) -> t.ListResourceTemplatesResult:
    template = t.ResourceTemplate(
        uri_template="test://template/{id}/data",
        name="template",
        description="A template.",
        mime_type="application/json",
    )
    return t.ListResourceTemplatesResult(resource_templates=[template])


async def read(ctx: Any, params: t.ReadResourceRequestParams) -> t.ReadResourceResult:
    uri = str(params.uri)
    if uri.startswith("test://template/"):
        number = uri.split("/")[3]
        text = f'{{"id":"{number}","templateTest":true,"data":"Data for ID: {number}"}}'
        return t.ReadResourceResult(
            contents=[t.TextResourceContents(uri=uri, mime_type="application/json", text=text)]
        )
    if uri not in RESOURCES:
        raise MCPError(t.INVALID_PARAMS, "Resource not found", {"uri": uri})
    kind, data = RESOURCES[uri]
    if isinstance(data, str):
        return t.ReadResourceResult(contents=[t.TextResourceContents(uri=uri, mime_type=kind, text=data)])
    blob = base64.b64encode(data).decode()
    return t.ReadResourceResult(contents=[t.BlobResourceContents(uri=uri, mime_type=kind, blob=blob)])


async def subscribed(_ctx: Any, _params: Any) -> t.EmptyResult:
    return t.EmptyResult()


def argument(name: str) -> t.PromptArgument:
    return t.PromptArgument(name=name, description=f"The argument {name}.", required=True)


PROMPTS = {
    "test_simple_prompt": [],
    "test_prompt_with_arguments": ["arg1", "arg2"],
    "test_prompt_with_embedded_resource": ["resourceUri"],
    "test_prompt_with_image": [],
    "test_input_required_result_prompt": [],
}


async def list_prompts(_ctx: Any, _params: Any) -> t.ListPromptsResult:
    return t.ListPromptsResult(
        prompts=[
            t.Prompt(
                name=name, description=f"The fixture {name}.", arguments=[argument(item) for item in given]
            )
            for name, given in PROMPTS.items()
        ]
    )


def user(content: t.ContentBlock) -> t.PromptMessage:
    return t.PromptMessage(role="user", content=content)


async def get_prompt(ctx: Any, params: t.GetPromptRequestParams) -> Any:
    given = params.arguments or {}
    match params.name:
        case "test_simple_prompt":
            messages = [user(t.TextContent(text="This is a simple prompt for testing."))]
        case "test_prompt_with_arguments":
            text = f"Prompt with arguments: arg1='{given.get('arg1')}', arg2='{given.get('arg2')}'"
            messages = [user(t.TextContent(text=text))]
        case "test_prompt_with_embedded_resource":
            held = t.TextResourceContents(
                uri=given["resourceUri"],
                mime_type="text/plain",
                text="Embedded resource content for testing.",
            )
            messages = [
                user(t.EmbeddedResource(resource=held)),
                user(t.TextContent(text="Please process the embedded resource above.")),
            ]
        case "test_prompt_with_image":
            messages = [
                user(t.ImageContent(data=png(), mime_type="image/png")),
                user(t.TextContent(text="Please analyze the image above.")),
            ]
        case "test_input_required_result_prompt":
            try:
                answers = await ask(
                    ctx, params, {"user_context": form("What is the context?", {"context": TEXT})}
                )
            except Asking as asking:
                return asking.result
            messages = [user(t.TextContent(text=f"The context: {answers['user_context']}"))]
        case name:
            raise MCPError(t.INVALID_PARAMS, f"Unknown prompt: {name}")
    return t.GetPromptResult(messages=messages)


async def complete(_ctx: Any, params: t.CompleteRequestParams) -> t.CompleteResult:
    known = ["paris", "park", "party"]
    found = [value for value in known if value.startswith(params.argument.value)]
    return t.CompleteResult(completion=t.Completion(values=found, total=len(found), has_more=False))


server: Server[Any] = Server(
    "conformance-fixture",
    version="1",
    on_list_tools=list_tools,
    on_call_tool=on_call,
    on_list_resources=list_resources,
    on_list_resource_templates=list_templates,
    on_read_resource=read,
    on_subscribe_resource=subscribed,
    on_unsubscribe_resource=subscribed,
    on_list_prompts=list_prompts,
    on_get_prompt=get_prompt,
    on_completion=complete,
    on_subscriptions_listen=ListenHandler(bus),
)


async def main() -> None:
    told = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options(told))


if __name__ == "__main__":
    asyncio.run(main())
