"""A model on a tape: what it answered is recorded, and said again without asking it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from pydantic_ai.models import CompletedStreamedResponse, Model
from pydantic_ai.models.wrapper import WrapperModel

from spindle.agents.conversation import read_response, write_messages
from spindle.calls.framing import unframed
from spindle.calls.known_secrets import with_known
from spindle.calls.record import clean_json
from spindle.domain.json_schema import JsonObject, canonical, is_array, is_object
from spindle.errors import ServerError

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import ModelRequestParameters, StreamedResponse
    from pydantic_ai.settings import ModelSettings

    from spindle.calls.tape import Tape
    from spindle.calls.tape_writer import TapeWriter

_CHANGES = frozenset(
    {"timestamp", "metadata", "run_id", "conversation_id", "provider_details", "provider_response_id"}
)
"""Fields of messages that are others each time."""


class RecordedModel(WrapperModel):
    """A model whose answers go on a tape."""

    def __init__(self, wrapped: Model, name: str, writer: TapeWriter) -> None:
        super().__init__(wrapped)
        self._name = name
        self._writer = writer

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        self._writer.check()
        began, asked = time.perf_counter(), _asked(messages, model_request_parameters)
        response = await super().request(messages, model_settings, model_request_parameters)
        self._keep(asked, response, began)
        return response

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: Any = None,
    ) -> AsyncGenerator[StreamedResponse]:
        self._writer.check()
        began, asked = time.perf_counter(), _asked(messages, model_request_parameters)
        opened = super().request_stream(messages, model_settings, model_request_parameters, run_context)
        async with opened as stream:
            yield stream
            self._keep(asked, stream.get(), began)

    def _keep(self, asked: JsonObject, response: ModelResponse, began: float) -> None:
        (written,) = write_messages([response])
        secrets = with_known(frozenset())
        self._writer.add(
            self._name,
            clean_json(asked, secrets),
            time.perf_counter() - began,
            result=clean_json(written, secrets),
            is_model=True,
        )


class PlayedModel(Model):
    """A model whose answers come from a tape."""

    def __init__(self, name: str, tape: Tape) -> None:
        super().__init__()
        self._name = name
        self._tape = tape

    @property
    def model_name(self) -> str:
        return self._name.rpartition(":")[2]

    @property
    def system(self) -> str:
        return self._name.rpartition(":")[0]

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        take = self._tape.answer(self._name, _asked(messages, model_request_parameters), is_model=True)
        if take.result is None:
            raise ServerError(f"the tape has no answer of {take.what} in call {take.number}")
        return read_response(take.result)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: Any = None,
    ) -> AsyncGenerator[StreamedResponse]:
        response = await self.request(messages, model_settings, model_request_parameters)
        yield CompletedStreamedResponse(
            response, model_request_parameters=model_request_parameters, replay_events=True
        )


def _asked(messages: list[ModelMessage], parameters: ModelRequestParameters) -> JsonObject:
    """Returns what a request is known by: what was said last, and a mark of all before and of the tools."""
    *before, last = [_steady(message) for message in write_messages(messages)]
    tools = [[tool.name, tool.parameters_json_schema] for tool in parameters.function_tools]
    told = [part.content for part in parameters.instruction_parts or ()]
    return {
        "said": last,
        "before": f"{len(before)} messages, {_mark(before)}",
        "instructions": _mark(told),
        "tools": f"{len(tools)} tools, {_mark(sorted(tools, key=lambda item: str(item[0])))}",
    }


def _mark(value: Any) -> str:
    return hashlib.sha256(canonical(value)).hexdigest()[:12]


def _steady(value: Any) -> Any:
    """Returns a message without what is another each time."""
    if is_object(value):
        return {key: _steady(item) for key, item in value.items() if key not in _CHANGES}
    if is_array(value):
        return [_steady(item) for item in value]
    return unframed(value) if isinstance(value, str) else value
