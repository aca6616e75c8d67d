"""The trail of a request: the workspaces that it came through, by which a workspace notices that it would be
its own source. It goes along in `_meta`, in a header or in the environment of a program."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import Context, ContextVar, copy_context
from functools import lru_cache
from pathlib import Path
from typing import Any

from spindle.domain.json_schema import JsonObject, is_array, is_object

Trail = tuple[str, ...]
"""The ids of workspaces, the first one that the request came through first."""

MAX_HOPS = 16
"""The number of workspaces that a request may come through."""
META_KEY = "io.spindle/trail"
LOOP_KEY = "io.spindle/loop"
"""The key under which the data of an MCP error names the sources on the way to a loop."""
HEADER = "spindle-trail"
OPENAPI_KEY, UTCP_KEY = "x-spindle-trail", "x_spindle_trail"
"""The keys in an operation and in a tool of a manual. Who describes a tool with them takes the header."""
VARIABLE = "SPINDLE_TRAIL"
FIELD = "trail"
"""The key in a tool's metadata of the workspaces that it is served by."""

_FORM = re.compile(rf"[0-9a-f]{{16}}(?: [0-9a-f]{{16}}){{0,{MAX_HOPS - 1}}}")
_current: ContextVar[Trail | None] = ContextVar("spindle_trail", default=None)


def workspace_id(state_folder: Path) -> str:
    """Returns the id of a workspace: the same for all its processes, another for every copy of it."""
    place = f"{os.uname().nodename}\0{os.path.realpath(state_folder)}"
    return hashlib.blake2b(place.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()


def read(text: object) -> Trail:
    """Returns the trail that a text from outside holds; none for anything else."""
    return tuple(text.split(" ")) if isinstance(text, str) and _FORM.fullmatch(text) else ()


@lru_cache(1000)
def written(trail: Trail) -> str:
    """Returns a trail as text."""
    return " ".join(trail)


def inherited() -> Trail:
    """The trail of whoever started this process."""
    return read(os.environ.get(VARIABLE))


def current() -> Trail:
    """The trail of the work at hand."""
    found = _current.get()
    return inherited() if found is None else found


def onward(own: Trail) -> Trail:
    """The trail of what leaves a workspace for one of its sources. `own` is that of what the workspace does
    for itself, which ends with its id."""
    found = _current.get()
    if found is None:
        return own
    return found if found and found[-1] == own[-1] else (*found, own[-1])


def own_trail(workspace: str) -> Trail:
    """The trail of what a workspace does for itself."""
    return (*inherited(), workspace)


def follow(trail: Trail | None) -> Trail | None:
    """Makes this the trail of the work at hand, and returns the one before it."""
    before = _current.get()
    _current.set(trail)
    return before


@contextmanager
def following(trail: Trail) -> Generator[None]:
    """Does what is inside on this trail."""
    before = follow(trail)
    try:
        yield
    finally:
        follow(before)


def on_kept(given: JsonObject) -> AbstractContextManager[None]:
    """Does what is inside on the trail that was kept with a run, if one was."""
    return following(read(given[FIELD])) if FIELD in given else nullcontext()


def own_context(workspace: str) -> Context:
    """The context of what a workspace does for itself, whoever's request made it begin."""
    context = copy_context()
    context.run(_current.set, own_trail(workspace))
    return context


def in_params(params: Any) -> Trail:
    """Returns the trail in the `_meta` of an MCP request."""
    meta = params.get("_meta") if is_object(params) else None
    return read(meta.get(META_KEY)) if is_object(meta) else ()


def loop_path(found: object) -> list[str] | None:
    """Returns the names of sources that another workspace gives for a loop, or None if these are none."""
    if not is_array(found) or len(found) > MAX_HOPS:
        return None
    return [name[:64] for name in found if isinstance(name, str) and name.isprintable()]


def of_tool(metadata: JsonObject, workspace: str) -> str:
    """Returns the trail of a tool that a workspace serves, as text."""
    return written((workspace, *read(metadata.get(FIELD))))


def in_description(text: object) -> str | None:
    """Returns the trail in the description of a tool, as text, or None."""
    return written(read(text)) or None


def headers_for(metadata: JsonObject) -> dict[str, str]:
    """Returns the header that goes along with a call of a tool that another workspace serves, and no header
    to anybody else."""
    way = current() if FIELD in metadata else ()
    return {HEADER: written(way)} if way else {}


def with_meta(holder: Mapping[str, Any], trail: Trail) -> JsonObject:
    """Returns the params of an MCP request, or one of its tools, with a trail in its `_meta`."""
    meta = holder.get("_meta")
    return {**holder, "_meta": {**(meta if is_object(meta) else {}), META_KEY: written(trail)}}
