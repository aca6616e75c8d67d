"""Results as the model sees them: as text, cut where it is long, with a way to read the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spindle.calls.content import PicturePart, TextPart, parts_of
from spindle.domain.json_schema import objects_in, to_json

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
    """The whole text if it was cut."""
    pictures: Sequence[PicturePart] = ()
    is_ours: bool = False
    """True if these are words of Spindle or of the user, not of a tool."""
    was_refused: bool = False
    """True if the call was not made, because a person or a policy here is against it."""

    @property
    def failed(self) -> bool:
        """True if the call failed. A decision of a person is not a failure."""
        return self.outcome not in ("ok", "refused")


async def shown_result(result: Result, reference: str, limit: int) -> ShownResult:
    """Returns a result as the model sees it."""
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
    return ShownResult(text, result.category or "ok", whole, pictures)


def shown_error(error: SpindleError) -> ShownResult:
    """Returns an error so that the model can act on it, with every problem of its arguments."""
    lines = [error.message]
    problems = objects_in(error.details)
    lines += [
        f"- {item.get('path', '')}: {item.get('problem', '')}"
        for item in problems
        if str(item.get("problem", "")) not in error.message  # most are in it
    ]
    if (hint := error.hint_for("model")) is not None:
        lines.append(f"hint: {hint}")
    # A source that lacks a permission has a status, or answered.
    refused = error.category == "permission" and error.status is None and not error.answered
    # What was not sent was judged here, in our own words.
    is_ours = refused or error.sent is False or error.category in ("invalid_arguments", "not_found")
    return ShownResult("\n".join(lines), error.category, is_ours=is_ours, was_refused=refused)


def cut(text: str, start: int, length: int, reference: str) -> str:
    """Returns a piece of a text, with a note on how to read the rest."""
    end = min(start + length, len(text))
    piece = text[start:end]
    if end >= len(text):
        return piece
    return (
        f"{piece}\n[cut: these are the characters {start} to {end} of {len(text)}; read on with "
        f'{READ_MORE}(reference="{reference}", start={end})]'
    )
