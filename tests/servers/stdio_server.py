"""An MCP server over stdio that can misbehave in every way a test needs. Standard library only.

The first argument is a JSON object of options (see DEFAULTS). Every start and every message
received is a line in the file `record`, so that tests can count.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

DEFAULTS = {
    "record": None,  # file for one JSON line per start and per message received
    "versions": ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"],  # the handshake's
    "modern": False,  # speak 2026-07-28
    "at_start": None,  # die | silent | chatter | wrong_version | stubborn
    "probe": "refuse",  # what server/discover gets from an older server: refuse | die | crash | ignore
    "page_size": None,
    "cursor_loop": False,
    "extra_tools": 0,
    "tools": None,  # a whole list of definitions instead of the usual ones
    "list_changed": True,
    "wrapper": False,  # start the real server as a child and wait for it, as npx does
    "fail_starts": None,  # file; while it exists, the server dies at start
}
OPTIONS = {**DEFAULTS, **json.loads(sys.argv[1] if len(sys.argv) > 1 else "{}")}

ANY = {"type": "object"}
READ_ONLY = {"readOnlyHint": True}
POINT = {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}


def tool(name: str, **more: object) -> dict:
    return {"name": name, "description": f"The tool {name}.", "inputSchema": ANY, **more}


USUAL_TOOLS = [
    tool("echo", inputSchema={"type": "object", "properties": {"text": {"type": "string"}}}),
    tool("read", annotations=READ_ONLY),
    tool("pid", annotations=READ_ONLY),
    tool("env"),
    tool("received"),
    tool("wait"),
    tool("wait_safely", annotations=READ_ONLY),
    tool("answer_after_cancel"),
    tool("big"),
    tool("flood"),
    tool("chatter"),
    tool("twice"),
    tool("progress"),
    tool("kinds"),
    tool("point", outputSchema=POINT),
    tool("not_a_point", outputSchema=POINT),
    tool("no_point", outputSchema=POINT),
    tool("failed_point", outputSchema=POINT),
    tool("bad_schema", inputSchema={"type": "object", "properties": {"a": {"type": "no such type"}}}),
    tool("bad_output_schema", outputSchema={"type": "object", "properties": {"a": {"type": 7}}}),
    tool("raw"),
    tool("refuse"),
    tool("last_answer"),
    tool("die"),
    tool("die_once", annotations=READ_ONLY),
    tool("close_output"),
    tool("add_tool"),
    tool("stop_reading"),
    tool("ask"),
]
tools = list(USUAL_TOOLS if OPTIONS["tools"] is None else OPTIONS["tools"])
tools += [tool(f"extra_{number:05}") for number in range(OPTIONS["extra_tools"])]
received: list[dict] = []
waiting: dict[object, str] = {}
listeners: list[object] = []


def record(entry: dict) -> None:
    if OPTIONS["record"]:
        line = json.dumps({"pid": os.getpid(), **entry}) + "\n"
        descriptor = os.open(OPTIONS["record"], os.O_APPEND | os.O_CREAT | os.O_WRONLY)
        os.write(descriptor, line.encode())
        os.close(descriptor)


def write(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def send(message: dict) -> None:
    write(json.dumps({"jsonrpc": "2.0", **message}))


def answer(request_id: object, result: dict) -> None:
    if OPTIONS["modern"]:
        result = {"resultType": "complete", **result}
    send({"id": request_id, "result": result})


def say(request_id: object, text: str, **more: object) -> None:
    answer(request_id, {"content": [{"type": "text", "text": text}], **more})


def refuse(request_id: object, code: int, message: str, **more: object) -> None:
    send({"id": request_id, "error": {"code": code, "message": message, **more}})


def notify(method: str, **params: object) -> None:
    send({"method": method, "params": params})


def report(params: dict, done: float, total: float | None = None, message: str | None = None) -> None:
    token = params.get("_meta", {}).get("progressToken")
    if token is not None:
        optional = {"total": total, "message": message}
        given = {key: value for key, value in optional.items() if value is not None}
        notify("notifications/progress", progressToken=token, progress=done, **given)


def change_list() -> None:
    if OPTIONS["modern"]:
        for listener in listeners:
            meta = {"io.modelcontextprotocol/subscriptionId": listener}
            notify("notifications/tools/list_changed", _meta=meta)
    else:
        notify("notifications/tools/list_changed")


ALL_KINDS = [
    {"type": "text", "text": "words", "annotations": {"audience": ["user"], "priority": 0.5}},
    {"type": "image", "data": "aW1hZ2U=", "mimeType": "image/png"},
    {"type": "audio", "data": "YXVkaW8=", "mimeType": "audio/wav"},
    {
        "type": "resource_link", "uri": "file:///a.txt", "name": "a.txt", "description": "a file",
        "mimeType": "text/plain", "size": 12,
    },
    {"type": "resource", "resource": {"uri": "test://text", "mimeType": "text/plain", "text": "held text"}},
    {"type": "resource", "resource": {"uri": "test://blob", "mimeType": "x/y", "blob": "YmxvYg=="}},
]  # fmt: skip


def call(request_id: object, params: dict) -> None:
    name, given = params["name"], params.get("arguments") or {}
    match name:
        case "echo" | "read":
            say(request_id, given.get("text", ""))
        case "pid":
            say(request_id, str(os.getpid()))
        case "env":
            say(request_id, os.environ.get(given["name"], ""))
        case "received":
            say(request_id, "", structuredContent={"messages": received})
        case "wait" | "wait_safely":
            if given.get("until") and os.path.exists(given["until"]):
                say(request_id, "waited")
                return
            waiting[request_id] = name
            report(params, 1)
        case "answer_after_cancel":
            waiting[request_id] = name
            report(params, 1)
        case "big":
            say(request_id, "x" * given["size"])
        case "flood":
            method = given.get("method", "notifications/message")
            line = json.dumps({"jsonrpc": "2.0", "method": method, "params": {"level": "info", "data": "x"}})
            for _ in range(given["count"] // 100):
                sys.stdout.write((line + "\n") * 100)
            say(request_id, "flooded")
        case "chatter":
            write("Server listening...")
            write("{broken json")
            write('"a string"')
            write("[1, 2]")
            write('{"neither": "this nor that"}')
            write("")
            sys.stdout.buffer.write(b"\xff\xfe not text\n")
            say(request_id, "after the chatter")
        case "twice":
            say(request_id, "first")
            say(request_id, "second")
            send({"id": 987654, "result": {}})
            send({"id": None, "result": {}})
        case "progress":
            for step in range(1, given["steps"] + 1):
                report(params, step, given["steps"], f"step {step}")
            say(request_id, "done")
        case "kinds":
            answer(request_id, {"content": ALL_KINDS, "structuredContent": {"kinds": len(ALL_KINDS)}})
        case "point" | "bad_output_schema":
            say(request_id, "", structuredContent={"x": 1.5})
        case "not_a_point":
            say(request_id, "", structuredContent={"x": "far"})
        case "no_point":
            say(request_id, "no structure")
        case "failed_point":
            say(request_id, "it failed", isError=True)
        case "raw":
            write(given["line"].replace("$ID", json.dumps(request_id)))
        case "refuse":
            refuse(request_id, given["code"], "refused", data={"why": "asked to"})
        case "last_answer":
            say(request_id, "x" * given.get("size", 10))
            os._exit(0)
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "die_once":
            if not os.path.exists(given["mark"]):
                open(given["mark"], "w").close()
                os.kill(os.getpid(), signal.SIGKILL)
            say(request_id, "alive")
        case "close_output":
            os.close(1)
            signal.pause()
        case "add_tool":
            tools.append(tool(given["name"]))
            say(request_id, "added")
            for _ in range(given.get("notices", 1)):
                change_list()
        case "stop_reading":
            report(params, 1)
            while not os.path.exists(given["until"]):
                time.sleep(0.01)
            if given.get("then") == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            say(request_id, "reading again")
        case "ask":
            for number in range(given.get("count", 1)):
                send({"id": f"ask-{number}", "method": given["method"], "params": {}})
            waiting[request_id] = name
        case _:
            say(request_id, f"called {name}")


def list_tools(request_id: object, params: dict) -> None:
    size = OPTIONS["page_size"] or len(tools) or 1
    start = int(params.get("cursor") or 0)
    page: dict = {"tools": tools[start : start + size]}
    if OPTIONS["modern"]:
        page |= {"ttlMs": 0, "cacheScope": "private"}
    if OPTIONS["cursor_loop"]:
        page["nextCursor"] = str(size) if start else str(2 * size)
    elif start + size < len(tools):
        page["nextCursor"] = str(start + size)
    answer(request_id, page)


def discover(request_id: object) -> None:
    capabilities = {"tools": {"listChanged": OPTIONS["list_changed"]}}
    if OPTIONS["modern"]:
        meta = {"io.modelcontextprotocol/serverInfo": {"name": "fault", "version": "1"}}
        result = {"supportedVersions": ["2026-07-28"], "capabilities": capabilities, "_meta": meta}
        answer(request_id, {**result, "ttlMs": 0, "cacheScope": "private"})
        return
    match OPTIONS["probe"]:
        case "die":
            os._exit(0)
        case "crash":
            print("KeyError: 'server/discover'", file=sys.stderr, flush=True)
            os._exit(1)
        case "refuse":
            refuse(request_id, -32601, "Method not found")


def initialize(request_id: object, params: dict) -> None:
    if OPTIONS["modern"]:
        refuse(request_id, -32022, "this server has no handshake", data={"supported": ["2026-07-28"]})
        return
    asked = params["protocolVersion"]
    version = asked if asked in OPTIONS["versions"] else OPTIONS["versions"][0]
    if OPTIONS["at_start"] == "wrong_version":
        version = "1999-01-01"
    capabilities = {"tools": {"listChanged": OPTIONS["list_changed"]}}
    info = {"name": "fault", "version": "1"}
    answer(request_id, {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info})


def take(message: dict) -> None:
    received.append({key: message[key] for key in ("method", "id", "params", "error") if key in message})
    record({"method": message.get("method"), "params": message.get("params")})
    method, params, request_id = message.get("method"), message.get("params") or {}, message.get("id")
    if OPTIONS["at_start"] == "silent":
        return
    match method:
        case None:
            for waiter in [key for key, name in waiting.items() if name == "ask"]:
                del waiting[waiter]
                say(waiter, json.dumps(message))
        case "server/discover":
            discover(request_id)
        case "initialize":
            initialize(request_id, params)
        case "tools/list":
            list_tools(request_id, params)
        case "tools/call":
            call(request_id, params)
        case "subscriptions/listen":
            listeners.append(request_id)
            meta = {"io.modelcontextprotocol/subscriptionId": request_id}
            notify(
                "notifications/subscriptions/acknowledged",
                notifications={"toolsListChanged": True},
                _meta=meta,
            )
        case "notifications/cancelled":
            if waiting.pop(params["requestId"], None) == "answer_after_cancel":
                say(params["requestId"], "too late")
        case "ping":
            answer(request_id, {})
        case _:
            if request_id is not None:
                refuse(request_id, -32601, f"Method not found: {method}")


def run_wrapped() -> None:
    inner = json.dumps({**OPTIONS, "wrapper": False})
    child = subprocess.Popen([sys.executable, __file__, inner])
    record({"start": "wrapper", "child": child.pid})
    sys.exit(child.wait())


def main() -> None:
    if OPTIONS["wrapper"]:
        run_wrapped()
    record({"start": "server"})
    if OPTIONS["at_start"] == "die" or (OPTIONS["fail_starts"] and os.path.exists(OPTIONS["fail_starts"])):
        print("loading the settings", file=sys.stderr)
        print("fatal: the token is missing", file=sys.stderr, flush=True)
        sys.exit(3)
    if OPTIONS["at_start"] == "chatter":
        write("Welcome to the server!")
    if OPTIONS["at_start"] == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for line in sys.stdin.buffer:
        take(json.loads(line))
    record({"end": "stdin closed"})
    while OPTIONS["at_start"] == "stubborn":
        signal.pause()


main()
