"""What a node written by hand may do in a workspace: call tools, ask people, for the run's principal."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Generator
from contextvars import ContextVar
from typing import TYPE_CHECKING

from spindle.calls.context import Context
from spindle.domain.call import Call
from spindle.errors import FlowError

if TYPE_CHECKING:
    from spindle.domain.call import Host

_current: ContextVar[Context | None] = ContextVar("spindle_flow_context", default=None)


def context() -> Context:
    """In the `exec` of a node that runs in a workspace: its `Context`, as tools have one.

    await context().call("fs.read_text_file", path="notes.txt")
    """
    found = _current.get()
    if found is None:
        raise FlowError("this node does not run in a workspace", hint="`await app.run_flow(flow, …)`")
    return found


@contextlib.contextmanager
def entered(host: Host, node: str) -> Generator[None]:
    call = Call(node, {}, host.principal, host=host)
    made = Context(node, call, asyncio.get_running_loop())
    token = _current.set(made)
    try:
        yield
    except BaseException:
        made.abandon()
        raise
    finally:
        _current.reset(token)
