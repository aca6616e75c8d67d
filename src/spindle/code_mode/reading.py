"""Texts for a model that calls tools by programs: the functions, and how a program ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from spindle.domain.json_schema import to_json
from spindle.errors import SpindleError

if TYPE_CHECKING:
    from spindle.code_mode.library import ToolLibrary
    from spindle.code_mode.limits import CodeResult
    from spindle.code_mode.naming import ToolFunction

RUN_CODE: Final = "run_code"
MOST_MODULES: Final = 100
MOST_IN_MODULE: Final = 50
SEARCH_SAYS: Final = (
    "Find functions by words about what they do. The result has their signatures, ready for run_code."
)
DESCRIBE_SAYS: Final = (
    "The whole description of a function such as `github.get_issue`, or the functions of a module."
)
RUN_SAYS: Final = (
    "Run a Python program that calls functions, and get the value of its last expression. Functions are in "
    "modules, to be imported; all are async, take arguments by name and raise exceptions: `import github`, "
    "then `await github.get_issue(number=1)`; several at once: `await asyncio.gather(…)`. Top-level await "
    "works. Do a whole task in one program: loops, conditions, sums; end with only what you need to know. "
    "Types are checked before anything is called: give a variable that holds an argument its type, as in "
    "`x: github.Issue = {…}`. A part of the standard library is there (asyncio, datetime, json, math, re); "
    "there are no files, network, sleep, `yield` or `getattr`."
)
CODE: Final = {"type": "string", "minLength": 1, "description": "the program"}


def run_says(library: ToolLibrary) -> str:
    """Returns the description of the tool that runs programs, with the modules that there are."""
    modules = library.modules
    more = f" and {len(modules) - MOST_MODULES} more" if len(modules) > MOST_MODULES else ""
    return f"{RUN_SAYS} Modules: {', '.join(modules[:MOST_MODULES]) or 'none'}{more}."


async def signatures(library: ToolLibrary, tools: Sequence[str]) -> str:
    """Returns the functions of these tools, briefly."""
    return await _written(library, [one for tool in tools if (one := library.function(tool)) is not None])


async def about(library: ToolLibrary, name: str) -> str:
    """Returns all that is known of a function, or the functions of a module. Raises NotFoundError."""
    inside = library.functions_in(name)
    if inside:
        more = len(inside) - MOST_IN_MODULE
        written = await _written(library, inside[:MOST_IN_MODULE])
        return f"{written}\n\n# and {more} more: search for them" if more > 0 else written
    function = library.function(name) or library.at(name)
    return await library.described(function)


async def _written(library: ToolLibrary, functions: Sequence[ToolFunction]) -> str:
    parts: list[str] = []
    for function in functions:
        try:
            parts.append(await library.described(function, briefly=True))
        except SpindleError:
            continue  # gone since it was listed
    return "\n\n".join(parts)


def shown(result: CodeResult) -> str:
    """Returns how a program ended, as text."""
    value = result.value if isinstance(result.value, str) else to_json(result.value).decode()
    if not result.printed:
        return value
    return f"{result.printed.rstrip()}\n{value}" if result.value is not None else result.printed.rstrip()
