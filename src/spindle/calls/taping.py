"""Records the calls of a workspace on a tape, while they are made as ever."""

from __future__ import annotations

import base64
import time
from collections.abc import Awaitable, Callable, Set
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from spindle.calls.record import clean_json, secrets_in
from spindle.calls.tape import TapedTool
from spindle.domain.call import Block, Result
from spindle.errors import BreakerOpenError, BusyError, SpindleError
from spindle.ports.store import ToolFilter
from spindle.threads import in_turn

if TYPE_CHECKING:
    from spindle.calls.record import Recorder
    from spindle.calls.running import RunningCall
    from spindle.calls.tape_writer import TapeWriter
    from spindle.catalog.catalog import Catalog
    from spindle.domain.json_schema import JsonObject

LIVE = frozenset({"agents", "flows"})
"""The kinds of source that are not recorded but run again: what they do are calls of other tools."""


class Taping:
    """Puts every attempt of a call on a tape, without its secrets."""

    def __init__(self, writer: TapeWriter, catalog: Catalog, recorder: Recorder) -> None:
        self._writer = writer
        self.missed: list[str] = []  # nothing can be, while it is recorded
        self._catalog = catalog
        self._recorder = recorder

    async def attempt(self, running: RunningCall, make: Callable[[RunningCall], Awaitable[Result]]) -> Result:
        """Makes an attempt of a call and records what came of it. A question to a person is no outcome: the
        answer that the call ends with is."""
        self._writer.check()
        began = time.perf_counter()
        try:
            result = await make(running)
        except (BreakerOpenError, BusyError):
            raise  # our own guards', which judge anew when the tape is played
        except SpindleError as error:
            self._keep(running, began, error=_described(error))
            raise
        if result.asked is None:
            self._keep(running, began, result=await in_turn(_written, result))
        return result

    async def request(
        self,
        source: str,
        method: str,
        params: JsonObject,
        secrets: Set[str],
        make: Callable[[], Awaitable[JsonObject | None]],
    ) -> JsonObject | None:
        """Makes a request for resources, prompts or completions, and records the answer. `secrets` are all
        there once it is answered."""
        self._writer.check()
        began = time.perf_counter()

        def keep(result: JsonObject | None = None, error: JsonObject | None = None) -> None:
            self._writer.add(
                f"{source}.{method}",
                clean_json(params, secrets),
                time.perf_counter() - began,
                result=clean_json(result, secrets),
                error=clean_json(error, secrets),
                source=(source, self._catalog.sources.kind(source)),
            )

        try:
            result = await make()
        except (BreakerOpenError, BusyError):
            raise
        except SpindleError as error:
            keep(error=_described(error))
            raise
        if result is None or result.get("resultType") != "input_required":
            keep(result or {})
        return result

    def _keep(
        self,
        running: RunningCall,
        began: float,
        *,
        result: JsonObject | None = None,
        error: JsonObject | None = None,
    ) -> None:
        tool, call = running.prepared.tool, running.call
        if tool.kind in LIVE:
            return
        given = comparable(call.arguments, call.key_in("parameter"))
        secrets = running.secrets | secrets_in(given, tool.input_schema)
        self._writer.add(
            tool.name,
            self._recorder.masked(tool, given, running.secrets),
            time.perf_counter() - began,
            result=clean_json(result, secrets),
            error=clean_json(error, secrets),
        )

    async def close(self) -> None:
        """Adds the tools of the catalog, and puts the tape in its place."""
        tools: list[TapedTool] = []
        try:
            for summary in await self._catalog.tools(ToolFilter()):
                if summary.kind not in LIVE:
                    tool = await self._catalog.find(summary.name)
                    secrets = self._catalog.sources.secrets(tool.source)
                    definition = clean_json(tool.spec.whole_definition(), secrets)
                    tools.append(TapedTool(tool.name, tool.source, tool.kind, definition, tool.fingerprint))
            self._writer.close(tools)
        finally:
            self._writer.give_up()


def comparable(arguments: JsonObject, key: dict[str, str]) -> JsonObject:
    """Returns the arguments without an idempotency key, which is another each time."""
    return {name: value for name, value in arguments.items() if name not in key}


def _described(error: SpindleError) -> JsonObject:
    described = error.to_dict()
    described.pop("remedy", None)
    return described


def _written(result: Result) -> JsonObject:
    """Returns a result as JSON, with its files in it."""
    whole = replace(result, content=tuple(map(_whole, result.content)))
    return {**whole.to_dict(), "has_structured": result.has_structured, "action": result.action}


def _whole(block: Block) -> Block:
    if block.path is None:
        return block
    data = base64.b64encode(Path(block.path).read_bytes()).decode()
    return replace(block, data=data, path=None)
