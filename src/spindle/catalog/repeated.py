"""Hides credentials that a source repeats in the texts of its tools: models, clients and files read those."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from spindle.domain.definitions import Definitions
from spindle.domain.json_schema import canonical, is_array, is_object, to_json
from spindle.giving_way import give_way

if TYPE_CHECKING:
    from spindle.domain.tool import ToolSpec

MASK: Final = "•••"
MIN_SECRET: Final = 8
"""Characters. A shorter one would be found in words that have nothing to do with it."""


class RepeatedSecrets:
    """The credentials that a source was shown, as they would stand in its texts."""

    def __init__(self, secrets: Collection[str]) -> None:
        # The longest first: otherwise one that begins like another would leave the other's end to be read.
        self._known = sorted({one for one in secrets if len(one) >= MIN_SECRET}, key=len, reverse=True)
        self._written = [to_json(one)[1:-1] for one in self._known]
        self._shared: dict[int, tuple[Definitions, Definitions]] = {}

    @property
    def are_known(self) -> bool:
        """True if there is anything to hide."""
        return bool(self._known)

    def hidden_in(self, text: str) -> str:
        """Returns a text without them."""
        for secret in self._known:
            text = text.replace(secret, MASK)
        return text

    def without(self, specs: Sequence[ToolSpec]) -> list[ToolSpec]:
        """Returns the tools without them. Names stay, as calls need those."""
        found: list[ToolSpec] = []
        for spec in specs:
            give_way()
            found.append(self._spec(spec))
        return found

    def _spec(self, spec: ToolSpec) -> ToolSpec:
        shared = spec.definitions
        if shared is not None:
            # Kept together with what was made of them, so that no other gets their id.
            if id(shared) not in self._shared:
                self._shared[id(shared)] = shared, self._definitions(shared)
            _, hidden = self._shared[id(shared)]
            spec = spec if hidden is shared else replace(spec, definitions=hidden)
        if not self._repeats(spec.definition()):
            return spec
        return replace(
            spec,
            title=None if spec.title is None else self.hidden_in(spec.title),
            description=self.hidden_in(spec.description),
            tags=tuple(self.hidden_in(tag) for tag in spec.tags),
            input_schema=self._hide(spec.input_schema),
            output_schema=self._hide(spec.output_schema),
        )

    def _definitions(self, shared: Definitions) -> Definitions:
        schemas = shared.schemas
        return Definitions(self._hide(schemas)) if self._repeats(schemas) else shared

    def _repeats(self, value: Mapping[str, Any]) -> bool:
        try:
            written = canonical(dict(value))
        except (RecursionError, TypeError, ValueError):
            return False  # it is no JSON, and will be left out for that
        return any(secret in written for secret in self._written)

    def _hide(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.hidden_in(value)
        if is_object(value):
            return {key: self._hide(item) for key, item in value.items()}
        return [self._hide(item) for item in value] if is_array(value) else value
