"""Flows: nodes over a shared store, joined by actions. Every tool is a node.

The walk of a flow, from a text to its result, is one way, and takes each step once:

    text → definition     `workspace.py` finds what is meant; `text/pipe.py` and `text/files.py` read it
    definition → nodes    `build.py`; a flow written in Python is nodes already
    run                   `workspace.py` records the run and has it executed (`runs/runner.py`)
    inputs → result       `execution.py`: defaults, outputs, errors
    one node to the next  `flow.py`: visits a node, takes the edge of its action; several edges for it begin
                          branches (`branches.py`), which meet at a join (`meeting.py`)
    one node              `node.py`: prep, exec, post. `workspace_node.py`: values out of the shared store,
                          the work (`tool_node.py`: a call or a question; `model_node.py`: a model or an
                          agent; `transform.py`: values; `flow_node.py`: a flow inside), its
                          output into the shared store; `trace.py` notes it

A run that is resumed, maybe by another process, begins with its record: document → definition → nodes.
Beside the walk: `check/` looks at a definition without running it, `plan.py` says what it would call, `draw/`
draws it, `library.py` holds the saved ones. `node.py` and `flow.py` need no workspace and no tools.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spindle.flows.build import inline as inline
    from spindle.flows.context import context as context
    from spindle.flows.definition import Approval as Approval
    from spindle.flows.definition import Batch as Batch
    from spindle.flows.definition import CacheRule as CacheRule
    from spindle.flows.definition import FlowLoop as FlowLoop
    from spindle.flows.definition import FlowOutput as FlowOutput
    from spindle.flows.definition import Join as Join
    from spindle.flows.definition import Retry as Retry
    from spindle.flows.definition import Wait as Wait
    from spindle.flows.flow import Flow as Flow
    from spindle.flows.model_node import AgentNode as AgentNode
    from spindle.flows.model_node import ModelNode as ModelNode
    from spindle.flows.node import BaseNode as BaseNode
    from spindle.flows.node import BatchNode as BatchNode
    from spindle.flows.node import Node as Node
    from spindle.flows.node import ParallelBatchNode as ParallelBatchNode
    from spindle.flows.node_cache import flow_safe as flow_safe
    from spindle.flows.run_context import map_concurrent as map_concurrent
    from spindle.flows.tool_node import Ask as Ask
    from spindle.flows.tool_node import ToolNode as ToolNode
    from spindle.flows.transform import Transform as Transform
    from spindle.flows.wait_node import WaitNode as WaitNode

_HOMES = {
    "AgentNode": "model_node",
    "Approval": "definition",
    "Ask": "tool_node",
    "BaseNode": "node",
    "Batch": "definition",
    "BatchNode": "node",
    "CacheRule": "definition",
    "Flow": "flow",
    "FlowOutput": "definition",
    "FlowLoop": "definition",
    "Join": "definition",
    "ModelNode": "model_node",
    "Node": "node",
    "ParallelBatchNode": "node",
    "Retry": "definition",
    "ToolNode": "tool_node",
    "Transform": "transform",
    "Wait": "definition",
    "WaitNode": "wait_node",
    "context": "context",
    "flow_safe": "node_cache",
    "inline": "build",
    "map_concurrent": "run_context",
}

__all__ = [*_HOMES]  # noqa: PLE0604  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'spindle.flows' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"spindle.flows.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
