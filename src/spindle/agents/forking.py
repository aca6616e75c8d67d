"""A new run from a step of another, by its record alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spindle.domain.ids import new_id
from spindle.errors import ConfigurationError

if TYPE_CHECKING:
    from spindle.agents.definition import Job
    from spindle.agents.record import Record


def forked(record: Record, step: int | None, message: str) -> Job:
    """Returns the job of a run that goes on from a step of another, with its calls up to there; None: from
    its end. Without a message the model is asked again from there."""
    from spindle.agents.conversation import Conversation, write_messages

    messages = record.messages(step)
    if not message and not Conversation(messages).awaits_the_model:
        where = "" if step is None else f"step {step} of "
        raise ConfigurationError(
            f"{where}run {record.run.id} ended with an answer",
            hint="give a message that says what to do next",
        )
    earlier = (record.run.id, *record.job.earlier)
    return replace(
        record.job, run=new_id(), task=message, history=write_messages(messages), earlier=earlier,
        untrusted=record.untrusted or "",
    )  # fmt: skip
