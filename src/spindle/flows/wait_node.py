"""A wait as a node: until a time, for a while, for an event, or for a call of a webhook.

The run ends its execution and is stored; no process needs to live until it goes on.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from spindle.domain.json_schema import JsonObject, is_object
from spindle.errors import CallTimeoutError, FlowError, PermissionDeniedError
from spindle.flows.definition import Approval, NodeDefinition, Wait
from spindle.flows.failures import REFUSED, NodeFailure
from spindle.flows.node_done import NodeDone
from spindle.flows.shared import SharedLookup
from spindle.flows.workspace_node import WorkspaceNode
from spindle.runs.waits import EVENTS, HOOK_PATH, OVER, WaitRequired

if TYPE_CHECKING:
    from spindle.domain.call import Host
    from spindle.flows.flow import Flow

HOOKS: Final = "hooks"
"""The shared key with the addresses of a flow's webhooks, by node."""
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
_SPAN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([smhdw])\s*")
LONGEST = 100 * 366 * 86400.0


class WaitNode(WorkspaceNode):
    """Waits. Its output is the time at which the wait was over, the event, or the body of the call."""

    def __init__(
        self,
        wait: Wait,
        *,
        id: str = "wait",
        timeout: float | None = None,
        outputs: Mapping[str, str] | None = None,
        fail_when: str | None = None,
        approval: Approval | None = None,
        description: str = "",
    ) -> None:
        super().__init__(
            NodeDefinition(
                id, wait=wait, timeout=timeout, outputs=dict(outputs or {}), fail_when=fail_when,
                approval=approval, description=description,
            )
        )  # fmt: skip

    _address = ""
    _next_address = ""

    @property
    def _wait(self) -> Wait:
        assert self.definition.wait is not None
        return self.definition.wait

    def _given(self, shared: Mapping[str, Any], item: JsonObject | None) -> JsonObject:
        lookup = SharedLookup(shared, item)
        hooks = shared.get(HOOKS)
        self._address = str(hooks.get(self.definition.id, "")) if is_object(hooks) else ""
        return {
            place.partition(".")[2]: self._rendered(value, lookup, place)
            for place, value in self.definition.texts.items()
        }

    async def _work(self, given: JsonObject) -> NodeDone:
        host, key = self._host(), [self.place, self.visit]

        async def same(_: Host) -> JsonObject:
            return given

        async def waited(host: Host) -> JsonObject:
            reply = host.ask(self._question(given))
            if reply.refused is not None:
                return {"refused": reply.refused}
            return {"over": True} if reply.state == OVER else {"came": reply.answer}

        # What it waits for, and how that ended, is decided once, whatever the clock says later.
        given = await host.remember(f"wait of {self.id}", key, same)
        found = await host.remember(f"wait {self.id}", key, waited)
        if "refused" in found:
            raise PermissionDeniedError(found["refused"] or "the wait was ended")
        if self._wait.webhook is not None:
            self._next_address = await new_address(self.place, self.visit + 1, host)
        if "came" in found:
            return NodeDone(found["came"])
        if self._wait.event is not None or self._wait.webhook is not None:
            raise CallTimeoutError(f"node {self.id!r}: nothing came within {self.definition.timeout:g} s")
        return NodeDone(True)

    def _question(self, given: JsonObject) -> WaitRequired:
        wait, limit = self._wait, self.definition.timeout
        details: JsonObject = {"node": self.id, "visit": self.visit}
        state: JsonObject = {} if limit is None else {"after": limit}
        if wait.until is not None:
            ends = moment(given["until"], f"node {self.id!r}: wait.until")
            shown = datetime.fromtimestamp(ends, UTC).isoformat(timespec="seconds")
            details["until"] = shown
            return WaitRequired(f"{self.id} waits until {shown}", expires_at=ends, details=details)
        if wait.span is not None:
            seconds = span(given["for"], f"node {self.id!r}: wait.for")
            details["for"] = seconds
            return WaitRequired(
                f"{self.id} waits for {seconds:g} s", details=details, state={"after": seconds}
            )
        if wait.event is not None:
            details |= {"event": given["event"], "schema": wait.schema or {}}
            if wait.where is not None:
                details["where"] = wait.where
            message = f"{self.id} waits for an event: {given['event']}"
            return WaitRequired(message, source=EVENTS, details=details, state=state)
        if not self._address.startswith(HOOK_PATH):
            raise FlowError(f"node {self.id!r} has no address: something else wrote the key {HOOKS!r}")
        details |= {"webhook": self._address, "schema": wait.schema or {}}
        state["token"] = self._address.removeprefix(HOOK_PATH)
        return WaitRequired(f"{self.id} waits for a call of its webhook", details=details, state=state)

    def exec_fallback(self, prep_res: Any, exc: Exception) -> Any:
        if isinstance(exc, PermissionDeniedError):
            return NodeFailure(exc, REFUSED)
        return super().exec_fallback(prep_res, exc)

    def post(self, shared: Any, prep_res: Any, exec_res: Any) -> Any:
        if self._next_address:
            shared[HOOKS] = {**shared.get(HOOKS, {}), self.id: self._next_address}
        return super().post(shared, prep_res, exec_res)


async def hooks_of(flow: Flow, host: Host, prefix: str = "") -> JsonObject:
    """Returns the shared key with the addresses of a flow's webhooks, which every node may hand out before
    the run waits there; nothing if it has none. `prefix`: the flows that contain it, as in `trace`."""
    waits = [node.definition for node in flow.nodes() if isinstance(node, WaitNode)]
    ids = [node.id for node in waits if node.wait is not None and node.wait.webhook]
    return {HOOKS: {id: await new_address(f"{prefix}{id}", 1, host) for id in ids}} if ids else {}


async def new_address(place: str, visit: int, host: Host) -> str:
    """Returns the address of a webhook for one visit of its node: unguessable, and the same in every
    execution of the run."""

    async def make(_: Host) -> str:
        return f"{HOOK_PATH}{secrets.token_hex(24)}"

    return await host.remember(f"webhook {place}", visit, make)


def span(value: Any, place: str) -> float:
    """Returns seconds: a number of them, or a text such as `90s`, `15m`, `2h`, `3d`, `1w`."""
    found = _SPAN.fullmatch(value) if isinstance(value, str) else None
    seconds = float(found[1]) * _UNITS[found[2]] if found else value
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds <= LONGEST:
        raise FlowError(f"{place}: {value!r} is no time to wait", hint="seconds, or 90s, 15m, 2h, 3d, 1w")
    return float(seconds)


def moment(value: Any, place: str) -> float:
    """Returns a point in time as seconds since 1970: such a number, or a text by ISO 8601 with its zone."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if 0 <= value <= LONGEST * 2:
            return float(value)
    elif isinstance(value, str):
        try:
            found = datetime.fromisoformat(value)
            if found.tzinfo is not None:
                return found.timestamp()
        except (ValueError, OverflowError):
            pass
    raise FlowError(
        f"{place}: {value!r} is no point in time",
        hint='such as "2030-01-31T09:00:00+01:00" or "…Z", with its zone; or seconds since 1970',
    )
