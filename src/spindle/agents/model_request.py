"""One request to a model: whole or streamed, with a timeout, and with Spindle's errors."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from spindle.errors import (
    AuthError,
    CallTimeoutError,
    ConnectionFailedError,
    ModelError,
    RateLimitedError,
    ServerError,
    SpindleError,
    from_status,
)
from spindle.http.failures import HttpFailure
from spindle.telemetry import tracing

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.settings import ModelSettings

Said = Callable[[Literal["thought", "text"], str], None]

ATTEMPTS = 3
"""Attempts at an answer whose connection breaks. Client libraries repeat only what fails before it begins."""


async def ask(
    model: Model,
    messages: Sequence[ModelMessage],
    parameters: ModelRequestParameters,
    settings: ModelSettings | None,
    timeout: float,
    said: Said | None = None,
    patience: float = 0.0,
) -> ModelResponse:
    """Returns the model's answer. `said` is called with each piece of it. `patience`: seconds for which a
    provider that is busy may ask to wait."""
    for attempt in range(1, ATTEMPTS + 1):
        timer = asyncio.timeout(timeout)
        try:
            async with timer:
                if said is None:
                    asked = _whole(model, messages, parameters, settings)
                else:
                    asked = _streamed(model, messages, parameters, settings, said)
                return await tracing.work_named("chat", model.model_name, asked)
        except SpindleError:
            raise
        except TimeoutError:
            if not timer.expired():
                raise
            raise CallTimeoutError(
                f"the model did not answer within {timeout:g} s", hint="raise the limit `request`"
            ) from None
        except Exception as error:
            mapped = _mapped(model, error)
            wait = _wait(mapped, patience)
            if attempt == ATTEMPTS or wait is None:
                raise mapped from error
            await asyncio.sleep(wait)
    raise AssertionError("the last attempt returns or raises")


def _wait(error: SpindleError, patience: float) -> float | None:
    """Returns the seconds after which to ask again: as many as the provider says. None: not at all."""
    if isinstance(error, ConnectionFailedError):
        return 0.0
    after = error.retry_after if isinstance(error, RateLimitedError | ServerError) else None
    return after if after is not None and after <= patience else None


def is_full(error: SpindleError) -> bool:
    """True if a model could not be asked because the conversation is too long for it."""
    from pydantic_ai.exceptions import ModelContextWindowExceededError

    return isinstance(error.__cause__, ModelContextWindowExceededError)


async def _whole(
    model: Model,
    messages: Sequence[ModelMessage],
    parameters: ModelRequestParameters,
    settings: ModelSettings | None,
) -> ModelResponse:
    from pydantic_ai.direct import model_request

    return await model_request(model, messages, model_settings=settings, model_request_parameters=parameters)


async def _streamed(
    model: Model,
    messages: Sequence[ModelMessage],
    parameters: ModelRequestParameters,
    settings: ModelSettings | None,
    said: Said,
) -> ModelResponse:
    from pydantic_ai.direct import model_request_stream
    from pydantic_ai.messages import (
        PartDeltaEvent,
        PartStartEvent,
        TextPart,
        TextPartDelta,
        ThinkingPart,
        ThinkingPartDelta,
    )

    streamed = model_request_stream(
        model, messages, model_settings=settings, model_request_parameters=parameters
    )
    async with streamed as stream:
        async for event in stream:
            piece: Any = None
            if isinstance(event, PartStartEvent):
                piece = event.part
            elif isinstance(event, PartDeltaEvent):
                piece = event.delta
            if isinstance(piece, TextPart) and piece.content:
                said("text", piece.content)
            elif isinstance(piece, TextPartDelta) and piece.content_delta:
                said("text", piece.content_delta)
            elif isinstance(piece, ThinkingPart) and piece.content:
                said("thought", piece.content)
            elif isinstance(piece, ThinkingPartDelta) and piece.content_delta:
                said("thought", piece.content_delta)
        return stream.get()


def _mapped(model: Model, error: Exception) -> SpindleError:
    from pydantic_ai import exceptions as theirs

    name = model.model_name
    if isinstance(error, theirs.ModelHTTPError):
        mapped = from_status(
            error.status_code, f"the model {name!r} could not be asked: {_said(error)}",
            retry_after=_after(error),
        )  # fmt: skip
        if isinstance(mapped, AuthError):
            mapped.hint = "check the provider's key in the environment"
        elif error.status_code == 404:
            mapped.hint = "check the name of the model"
        elif isinstance(error, theirs.ModelContextWindowExceededError):
            mapped.hint = "the conversation is too long for this model: see `compact` of the context"
        else:
            mapped.hint = None
        return mapped
    if isinstance(error, theirs.ContentFilterError):
        return ModelError(f"the provider's filter stopped the model {name!r}: {error.message}")
    if isinstance(error, theirs.ModelConnectionError):
        return ConnectionFailedError(f"the model {name!r} cannot be reached: {_reason(error, error.message)}")
    if isinstance(error, theirs.UserError):
        return ModelError(f"the model {name!r} cannot be asked this: {error.message}")
    if isinstance(error, NotImplementedError):
        return ModelError(f"the model {name!r} cannot be asked this: {error}")
    if isinstance(error, theirs.ModelRateLimitError):  # said within a stream, which has no status
        said = f"the model {name!r} could not be asked: {error.message}"
        return RateLimitedError(said, retry_after=error.retry_after)
    if isinstance(error, theirs.ModelUnavailableError):
        said = f"the model {name!r} could not be asked: {error.message}"
        return ServerError(said, retry_after=error.retry_after)
    if isinstance(error, theirs.AgentRunError):
        return ServerError(f"the model {name!r} could not be asked: {error.message}")
    if type(error).__module__.partition(".")[0] in ("httpx", "httpx2", "httpcore", "openai", "anthropic"):
        reason = _reason(error, f"{type(error).__name__}: {error}")
        return ConnectionFailedError(f"the connection to the model {name!r} broke: {reason}")
    return ServerError(f"the model {name!r} failed: {type(error).__name__}: {error}")


def _reason(error: BaseException, said: str) -> str:
    """Returns what went wrong on the way, as our own client knows it, in place of what libraries said."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, HttpFailure):
            return str(cause)
        cause = cause.__cause__
    return said


def _after(error: Any) -> float | None:
    """Returns the seconds that the provider asks to wait for. Its library takes no fractions of them."""
    if error.retry_after is not None:
        return error.retry_after
    try:
        headers: Mapping[str, str] = error.headers or {}
        after = float(headers.get("retry-after", ""))
    except ValueError:
        return None
    return after if 0 <= after < math.inf else None


def _said(error: Any) -> str:
    """Returns the provider's message from the body that its library repeats whole."""
    body = error.body
    for key in ("error", "message"):
        if isinstance(body, dict) and key in body:
            body = body[key]  # pyright: ignore[reportUnknownVariableType]
    return f"{error.status_code}: {body}" if isinstance(body, str) else str(error.message)
