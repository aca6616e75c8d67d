"""The limits of an agent. The first one that is reached ends its run, with what was achieved until then."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from spindle.code_mode.limits import CodeLimits
from spindle.domain.json_schema import JsonObject
from spindle.errors import ConfigurationError, did_you_mean


@dataclass(frozen=True, slots=True)
class Limits:
    """All limits of an agent. None: no limit."""

    steps: int = 30
    """Answers of the model in one run."""
    time: float | None = None
    """Seconds that a run works. Waiting for a person does not count."""
    tokens: int | None = None
    """Of input and output together, in one run."""
    cost: float | None = None
    """US dollars, in one run."""
    parallel: int = 16
    """Simultaneous calls of the agent, in all its runs. Each call also keeps to its source's limit."""
    tools: int = 40
    """Tools that the model is shown at once. If there are more, it searches for those that it needs."""
    result: int = 20_000
    """Characters of a result that the model is shown. It can read the rest of one that is cut."""
    repairs: int = 3
    """Unusable answers in a row, each with an explanation to the model, before the run fails."""
    failures: int = 3
    """Turns in a row in which all calls of a tool failed, before the tool is removed."""
    repeats: int = 5
    """Turns in a row in which the model may make the very same call."""
    request: float = 300.0
    """Seconds that one answer of the model may take."""
    conclude: bool = True
    """True: at a limit that ends the run the model is asked once more, without tools, for its answer."""

    code_seconds: float = 30.0
    """Seconds that one program of a model computes. Waiting for its calls does not count."""
    code_memory: int = 100
    """Megabytes of one program."""
    code_calls: int = 100
    """Calls that one program makes."""

    @property
    def of_code(self) -> CodeLimits:
        """The limits of one program."""
        return CodeLimits(self.code_seconds, self.code_memory, self.code_calls)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name != "conclude" and value is not None and (isinstance(value, bool) or not value > 0):
                raise ConfigurationError(f"the limit `{field.name}` must be more than 0, and is {value!r}")

    def to_dict(self) -> JsonObject:
        """Returns the limits as JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def of(cls, given: Limits | Mapping[str, Any] | None) -> Self:
        """Returns limits as given, or those of a mapping, or the defaults. Raises ConfigurationError."""
        if isinstance(given, cls):
            return given
        known = [field.name for field in dataclasses.fields(cls)]
        values: dict[str, Any] = dict(given) if isinstance(given, Mapping) else {}
        for name in values:
            if name not in known:
                hint = did_you_mean(name, known, f"the limits are {', '.join(known)}")
                raise ConfigurationError(f"there is no limit {name!r}", hint=hint)
        return cls(**values)
