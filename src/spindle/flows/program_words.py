"""`run`: a configured program as a node, by the words of its command line.

    run: [git, log, --count=3, "${branch}"]

The first word is the source, the second its command. What follows are flags as `spindle call` takes them,
and words for required parameters that have no flag, in order. No shell reads them: a word is a value or the
name of a parameter, and a template is always a value. The node is that of the tool `git.log`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from spindle.calls.flags import Flags
from spindle.domain.json_schema import JsonObject, to_json
from spindle.errors import FlowError, InvalidArgumentsError, NotFoundError
from spindle.flows.templates import is_template

if TYPE_CHECKING:
    from spindle.domain.tool import Tool
    from spindle.flows.definition import NodeDefinition

KIND: Final = "cli"
"""The kind of source whose tools are commands of a program."""
_END: Final = "--"


def tool_of(words: Sequence[str]) -> str:
    """Returns the name of the tool that the words of a program call."""
    return ".".join(words[:2])


def as_word(value: Any) -> str:
    """Returns a word as text: `3` and `true` may stand in a file without quotes."""
    return value if isinstance(value, str) else to_json(value).decode()


def spread(node: NodeDefinition, tool: Tool) -> NodeDefinition:
    """Returns the node of a tool that a node with `run` stands for, any other node as it is. Raises FlowError
    if the words are not those of the program."""
    if node.run is None:
        return node
    if tool.kind != KIND:
        raise FlowError(
            f"node {node.id!r}: `run` runs a configured program, and {tool.source!r} is a source of kind "
            f"{tool.kind!r}",
            hint=f"tool: {tool.name}",
        )
    try:
        return replace(node, run=None, params={**_arguments(node.run[2:], tool), **node.params})
    except InvalidArgumentsError as error:
        hint = error.hint or f"`spindle show {tool.name}` lists its parameters"
        raise FlowError(f"node {node.id!r}: run: {error.message}", hint=hint) from None


def _arguments(words: Sequence[str], tool: Tool) -> JsonObject:
    flags = Flags(tool.name, tool.input_schema, is_template)
    waiting, standing = deque(words), list[str]()
    while waiting:
        word = waiting.popleft()
        if word == _END:
            standing += waiting
            break
        if word.startswith("--"):
            flags.take(word[2:], waiting)
        elif word.startswith("-") and word != "-":
            listed = ", ".join(f"--{name}" for name in flags.known)
            raise InvalidArgumentsError(
                f"{word!r} is not a flag of {tool.name}",
                hint=f"parameters have the names of its settings: {listed}; after `--` it is a value",
            )
        else:
            standing.append(word)
    given = flags.arguments()
    free = [name for name, item in flags.known.items() if item.required and name not in given]
    if len(standing) > len(free):
        other = next((name for name in flags.known if name not in given and name not in free), None)
        raise InvalidArgumentsError(
            f"nothing takes the word {standing[len(free)]!r}",
            hint=f"say what it is: --{other}={standing[len(free)]}" if other else None,
        )
    for name, word in zip(free, standing, strict=False):
        flags.take(f"{name}={word}", deque())
    return flags.arguments()


async def find_tool(node: NodeDefinition, find: Callable[[str], Awaitable[Tool]]) -> Tool:
    """Returns the tool of a node. Raises NotFoundError, for `run` with the way to configure the program."""
    assert node.tool is not None
    try:
        return await find(node.tool)
    except NotFoundError as error:
        if node.run is None:
            raise
        program, command = node.run[:2]
        add = f"`spindle add {program} --cli {program} {command}` makes it a source"
        hint = add if error.remedy is not None else error.hint or add
        raise NotFoundError(
            f"no program is configured as `{program} {command}`, and nothing else is run",
            hint=hint,
            tool=node.tool,
        ) from None
