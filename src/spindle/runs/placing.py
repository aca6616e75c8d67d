"""The place of a submitted run: its queue, and when its turn comes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from spindle.domain.call import new_id
from spindle.domain.json_schema import to_json
from spindle.domain.run import DEFAULT_QUEUE, USUAL_PRIORITY


@dataclass(frozen=True, slots=True)
class Placing:
    """The queue of a run, and its place in it."""

    queue: str = DEFAULT_QUEUE
    priority: int = USUAL_PRIORITY
    """A smaller number is sooner."""
    at: float | None = None
    """The time before which it does not begin."""
    dedup: str | None = None
    """A key: of those who submit with the same, to the same queue, all get the run of the first."""
    id: str | None = None
    """The id that the run gets, where whoever submits it must find it again."""

    def id_for(self, principal: str) -> str:
        """Returns the id of a run that is submitted so: with a key, that of all with this key."""
        if self.dedup is None:
            return self.id or new_id()
        parts: list[Any] = [self.queue, principal, self.dedup]
        return hashlib.sha256(to_json(parts)).hexdigest()[:32]
