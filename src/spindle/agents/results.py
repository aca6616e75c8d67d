"""What the model is shown of a call: all of it as text, cut where it is long, with a way to read on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spindle.calls.content import PicturePart, TextPart, parts_of
from spindle.domain.json_schema import is_array, is_object, to_json

if TYPE_CHECKING:
    from spindle.domain.call import Result
    from spindle.errors import SpindleError

READ_MORE = "read_more"


@dataclass(frozen=True, slots=True)
class ShownResult:
    """The answer to one call."""

    text: str
    outcome: str = "ok"
    """`ok`, or the category of the error."""
    whole: str | None = None
    """All of the text where it was cut."""
    pictures: Sequence[PicturePart] = ()

    @property
    def failed(self) -> bool:
        """What a person decided is no failure."""
        return self.outcome not in ("ok", "refused")


async def shown_result(result: Result, reference: str, limit: int) -> ShownResult:
    parts = await parts_of(result)
    pictures = [part for part in parts if isinstance(part, PicturePart)]
    text = "\n".join(
        part.text if isinstance(part, TextPart) else f"[a picture, {part.mime_type}]" for part in parts
    )
    if result.changed is not None:
        changed = to_json(result.changed).decode()
        text = f"(a person allowed this call with other arguments: {changed})\n{text}"
    whole = None
    if len(text) > limit:
        whole, text = text, cut(text, 0, limit, reference)
    return ShownResult(text, "tool" if result.is_error else "ok", whole, pictures)


def shown_error(error: SpindleError) -> ShownResult:
    """An error as the model can act on it: what was wrong, with every problem of its arguments."""
    lines = [error.message]
    problems = [item for item in error.details if is_object(item)] if is_array(error.details) else []
    lines += [
        f"- {item.get('path', '')}: {item.get('problem', '')}"
        for item in problems
        if str(item.get("problem", "")) not in error.message  # most are in it
    ]
    if error.hint is not None and error.category in ("invalid_arguments", "not_found", "client"):
        lines.append(f"hint: {error.hint}")
    return ShownResult("\n".join(lines), error.category)


def cut(text: str, start: int, length: int, reference: str) -> str:
    """A piece of a text, and where to read on."""
    end = min(start + length, len(text))
    piece = text[start:end]
    if end >= len(text):
        return piece
    return (
        f"{piece}\n[cut: these are the characters {start} to {end} of {len(text)}; read on with "
        f'{READ_MORE}(reference="{reference}", start={end})]'
    )
