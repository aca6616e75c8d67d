"""The `Context` of a node written by hand: it calls tools and asks people, for the run's principal."""

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
    """Returns the `Context` of the node that runs now, inside its `exec`, as tools have one.

    await context().call("fs.read_text_file", path="notes.txt")
    """
    found = _current.get()
    if found is None:
        raise FlowError("this node does not run in a workspace", hint="`await app.run_flow(flow, …)`")
    return found


@contextlib.contextmanager
def entered(host: Host, node: str) -> Generator[None]:
    """Makes a `Context` available to the code of one node."""
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
