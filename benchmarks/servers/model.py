"""The scripted model as a process: asks for one call of `add`, then answers. Prints its address."""

from __future__ import annotations

import sys

from spindle.testing import ModelRequest, ModelServer, ToolCall, Turn


def reply(request: ModelRequest) -> Turn:
    if request.messages[-1].get("role") == "tool":
        return Turn("It is 3.")
    return Turn(calls=[ToolCall("add", {"a": 1, "b": 2})])


if __name__ == "__main__":
    with ModelServer(reply=reply) as server:
        print(server.openai_url, flush=True)
        sys.stdin.read()
