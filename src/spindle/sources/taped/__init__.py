"""A source that is played from a tape: its tools as they were, its calls with what came of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spindle.calls.taping import comparable
from spindle.domain.call import Call, Result
from spindle.domain.tool import ToolSpec
from spindle.errors import NotFoundError, from_description
from spindle.ports.source import RelaySession, RelaySource, Session, Source

if TYPE_CHECKING:
    from spindle.calls.tape import Tape, TapedTool
    from spindle.domain.identity import Credential
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.tool import Tool
    from spindle.ports.source import Note
    from spindle.sources.taped.config import TapedConfig


class TapedSource(Source["TapedConfig"]):
    """One source of a tape."""

    def __init__(self, name: str, config: TapedConfig, root: Path, note: Note, tape: Tape) -> None:
        super().__init__(name, config, root, note)
        self._tape = tape

    @staticmethod
    def config_model() -> type[TapedConfig]:
        from spindle.sources.taped.config import TapedConfig

        return TapedConfig

    def open(self, credential: Credential, on_change: Callable[[], None]) -> TapedSession:
        return TapedSession(self._tape, self._tools())

    def _tools(self) -> Iterable[TapedTool]:
        return (tool for tool in self._tape.tools.values() if tool.source == self.name)


class TapedRelaySource(TapedSource, RelaySource["TapedConfig"]):
    """One source of a tape that also has resources and prompts."""

    def open(self, credential: Credential, on_change: Callable[[], None]) -> TapedRelaySession:
        return TapedRelaySession(self._tape, self._tools())


class TapedSession(Session):
    """Answers from a tape."""

    per_call_credentials = True
    is_stateless = True

    def __init__(self, tape: Tape, tools: Iterable[TapedTool]) -> None:
        self._tape = tape
        self._tools = list(tools)

    async def discover(self) -> list[ToolSpec]:
        return [ToolSpec.from_definition(tool.definition) for tool in self._tools]

    async def invoke(self, tool: Tool, call: Call) -> Result:
        take = self._tape.answer(tool.name, comparable(call.arguments, call.key_in("parameter")))
        if take.error is not None:
            raise from_description(take.error)
        found: Any = take.result
        return Result.from_dict(found)


class TapedRelaySession(TapedSession, RelaySession):
    """Answers requests for resources, prompts and completions, too. Watching is not on a tape."""

    @property
    def offers(self) -> frozenset[str]:
        return frozenset({"resources", "prompts", "completions"})

    async def relay(self, method: str, call: Call) -> JsonObject:
        take = self._tape.answer(call.tool, call.arguments)
        if take.error is not None:
            raise from_description(take.error)
        return take.result or {}

    def audience(self, credential: Credential) -> str:
        return ""

    async def watch(
        self, uri: str, credential: Credential, on_ready: Callable[[], None] | None = None
    ) -> None:
        raise NotFoundError(f"changes of resources are not on the tape {self._tape.path.name}")
