"""Hints for what people write into flow files out of habit: other shapes, and the words of other systems."""

from __future__ import annotations

from spindle.documents.places import DocumentPath

REQUIRED = {
    "value": 'an output that is an object is written {"value": {…}}',
    "over": 'such as "over": "${items}"',
}
"""By key, the hint for one that is missing."""

REFUSED = {
    "params": "what it says has templates of its own",
    "retry": "an edge back to it asks, or waits, again",
    "timeout": "a run that waits for a person or for a time waits as long as it takes",
    "batch": "a flow inside the flow can wait for each item",
    "cache": "every run asks anew",
    "fingerprint": "it belongs to a tool",
    "parse": "it says how the text of a tool is read",
    "loop": "a flow inside a flow can be repeated",
}
"""By key, the hint for one that a kind of node does not have."""

_SHAPES = {
    "nodes": "such as `- {id: a, tool: NAME}`",
    "edges": "such as `- {from: a, to: b}`",
    "inputs": "such as `{text: {type: string}}`",
    "outputs": 'such as `{result: "${NODE.key}"}`',
    "params": "such as `{text: hello}`; leave it out if there are none",
    "retry": "such as `{attempts: 3, wait: 1}`",
    "timeout": "seconds, as a number: 5",
    "batch": 'such as `{over: "${NODE.items}"}`',
    "run": "a list of words, as no shell reads it: [SOURCE, COMMAND, --flag=value]",
    "flow": "a flow in this place has `nodes` of its own; a saved one is a tool: `tool: NAME`",
    "cache": "true, or such as `{ttl: 60}`",
    "version": "the number 1, without quotes",
}
"""By key, what stands there."""

_PARTS = {"nodes": "such as `{id: a, tool: NAME}`", "edges": "such as `{from: a, to: b}`",
          "inputs": "such as `{type: string}`"}  # fmt: skip
"""By key, what stands in each of its items."""

_ORDER = "the order of nodes stands in `edges`: `{from: a, to: b}`"
_TOOL = "a node names its tool in `tool`: SOURCE.TOOL"
_ARGUMENTS = "the arguments of a node are its `params`"
_FAILURE = "what follows a failure is an edge: `{from: a, to: b, action: error}`"
_EACH = 'a node is done once for each item with `batch: {over: "${…}"}`'
_IN_NODES = {
    **dict.fromkeys(("type", "uses", "call", "command", "node", "mcp_metadata", "server"), _TOOL),
    **dict.fromkeys(("with", "args", "arguments", "input", "inputs", "config"), _ARGUMENTS),
    **dict.fromkeys(("needs", "depends_on", "after", "next", "then"), _ORDER),
    **dict.fromkeys(("on_error", "catch", "fallback", "onError"), _FAILURE),
    **dict.fromkeys(("foreach", "for_each", "map", "items"), _EACH),
    "outputs": "outputs are renamed in `mappings: {NODE: {outputs: …}}`",
    "name": "a node's name is its `id`",
    "prompt": "`ask` asks a person, `model` a language model",
}  # fmt: skip
_IN_FLOWS = {
    **dict.fromkeys(("steps", "tasks", "jobs", "stages"), "its steps are `nodes`"),
    **dict.fromkeys(("transitions", "connections", "links"), "they are `edges`"),
    **dict.fromkeys(("id", "title"), "a flow's name is its `name`"),
}


def of_shape(path: DocumentPath) -> str | None:
    """Returns the hint for a value of another type than its place takes."""
    *before, last = ("", *path)
    if isinstance(last, int) or before[-1:] == ["inputs"]:
        return _PARTS.get(str(before[-1]))
    return _SHAPES.get(last)


def of_key(path: DocumentPath, name: str) -> str | None:
    """Returns the hint for a key that another system has at this place."""
    if path[-1:] in ((), ("flow",)):
        return _IN_FLOWS.get(name)
    return _IN_NODES.get(name) if path[-2:-1] == ("nodes",) else None
