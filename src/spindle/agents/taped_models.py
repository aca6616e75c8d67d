"""The models of a workspace whose answers are recorded on a tape or come from one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from spindle.calls.tape import Tape
    from spindle.calls.tape_writer import TapeWriter


class TapedModels(Protocol):
    """Gives the models of a workspace whose calls are recorded or played."""

    def of(self, name: str, make: Callable[[], Model]) -> Model:
        """Returns the model of this name, which `make` makes where it is asked at all."""
        ...


class RecordedModels:
    """Records what models answer."""

    def __init__(self, writer: TapeWriter) -> None:
        self._writer = writer

    def of(self, name: str, make: Callable[[], Model]) -> Model:
        from spindle.agents.taped_model import RecordedModel

        made = make()
        return made if isinstance(made, RecordedModel) else RecordedModel(made, name, self._writer)


class PlayedModels:
    """Says again what models have answered."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    def of(self, name: str, make: Callable[[], Model]) -> Model:
        from spindle.agents.taped_model import PlayedModel

        return PlayedModel(name, self._tape)
