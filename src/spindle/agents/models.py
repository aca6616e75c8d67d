"""Finds the model of a name."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from spindle.errors import ConfigurationError, suggest

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from spindle.agents.model_client import ModelClient

PLACES = ("_URL", "_KEY", "_ENDPOINT", "_HOST", "_BASE", "_TOKEN", "_VERSION", "_REGION", "_PROJECT")
"""Ends of the names of variables in which providers find where they are, and who asks."""
TAKE_CLIENTS = frozenset(
    {"openai", "openai-chat", "openai-responses", "anthropic", "ollama", "openrouter", "deepseek"}
)
"""Providers whose libraries take a client of ours. Others bring one that we know less of."""
INSTALL = 'pip install "spindle-tools[agent]"'


def require_library() -> None:
    """Raises an error that says what to install if the library for models is missing."""
    try:
        import pydantic_ai  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ModuleNotFoundError as error:
        if error.name != "pydantic_ai":
            raise
        raise ConfigurationError("agents need the extra `agent`", hint=INSTALL) from None


def no_model() -> ConfigurationError:
    """Returns the error for an agent without a model."""
    return ConfigurationError(
        "no model is chosen", hint="say `--model provider:name`, or set `model` in [agent] of spindle.toml"
    )


def check_name(name: str) -> None:
    """Raises ConfigurationError if the name of a model cannot be right."""
    provider, colon, model = name.partition(":")
    if not colon or not provider or not model:
        raise ConfigurationError(
            f"{name!r} does not say which provider's model it is", hint="write it as `provider:model`"
        )


def places() -> int:
    """Returns a number for the addresses and keys of providers in the environment, which differs once one of
    them changes. Models that were found before have kept theirs."""
    return hash(frozenset(item for item in os.environ.items() if item[0].endswith(PLACES)))


def resolve(name: str, key: str | None = None, *, client: Callable[[], ModelClient] | None = None) -> Model:
    """Returns the model of this name, `provider:model`. Providers find their keys in the environment,
    unless a key is given; then it is used, or it is an error. `client` is asked for what to ask with, where
    the provider's library takes that. It is not closed with the model."""
    require_library()
    check_name(name)
    if key is not None and not key.strip():
        raise ConfigurationError(f"the key that was given for the model {name!r} is empty")
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.models import infer_model

    try:
        given: dict[str, Any] = {} if key is None else {"api_key": key}
        if name.partition(":")[0] in TAKE_CLIENTS and client is not None:
            given["http_client"] = client()
        return infer_model(name, _with(name, given)) if given else infer_model(name)
    except UserError as error:
        raise _unusable(name, str(error)) from None
    except ImportError as error:
        provider = name.partition(":")[0]
        raise ConfigurationError(
            f"models of {provider!r} need a library that is not installed: {_line(error)}",
            hint=f'pip install "pydantic-ai-slim[{provider}]"',
        ) from None
    except ValueError as error:
        raise _unusable(name, str(error)) from None


def _with(name: str, given: dict[str, Any]) -> Callable[[str], Any]:
    from pydantic_ai.providers import infer_provider_class

    def make(provider: str) -> Any:
        # Each provider's class has parameters of its own; nearly all have that for the key.
        made: Any = infer_provider_class(provider)
        try:
            return made(**given)
        except TypeError:
            if "api_key" not in given:
                raise
            raise ConfigurationError(
                f"models of {provider!r} take no key", hint="leave it out, or name another model"
            ) from None

    infer_provider_class(name.partition(":")[0])
    return make


def _unusable(name: str, said: str) -> ConfigurationError:
    import re

    variables = re.findall(r"`([A-Z][A-Z0-9_]+)`", said)
    if variables:
        return ConfigurationError(
            f"there is no key for the model {name!r}: the environment variable {variables[0]} is not set",
            hint=f"export {variables[0]}=…, or name another model",
        )
    meant = re.search(r"Did you mean '([^']+)'", said)
    if meant is None:
        provider, _, model = name.partition(":")
        close = suggest(provider, _providers())
        hint = f"did you mean '{close}:{model}'?" if close and close != provider else None
    else:
        hint = f"did you mean {meant[1]!r}?"
    return ConfigurationError(
        f"the model {name!r} cannot be used: {said.split('. Did you mean')[0]}", hint=hint
    )


def _providers() -> list[str]:
    from pydantic_ai.models import known_model_names

    return sorted({known.partition(":")[0] for known in known_model_names()})


def _line(error: BaseException) -> str:
    return str(error).split("\n", 1)[0]
