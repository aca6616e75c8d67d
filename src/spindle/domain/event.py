"""An event: what happened, as CloudEvents 1.0 describes it."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from spindle.domain.call import new_id
from spindle.domain.json_schema import JsonObject

SPEC_VERSION = "1.0"


def now() -> str:
    """Returns the current time as events write it."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class Event:
    """One event. `type` and `source` are empty for a message that came without them."""

    type: str = ""
    source: str = ""
    data: Any = None
    id: str = field(default_factory=new_id)
    time: str | None = field(default_factory=now)
    subject: str | None = None
    content_type: str | None = "application/json"
    extensions: Mapping[str, str] = field(default_factory=dict[str, str])
    channel: str = ""
    """The address on which it travels. Not part of the event itself."""

    def attributes(self) -> dict[str, str]:
        """Returns all that CloudEvents says about the data."""
        fields = {
            "specversion": SPEC_VERSION,
            "id": self.id,
            "source": self.source,
            "type": self.type,
            "subject": self.subject,
            "time": self.time,
            "datacontenttype": self.content_type,
            **self.extensions,
        }
        return {key: value for key, value in fields.items() if value}

    def to_dict(self) -> JsonObject:
        """Returns the event as it is shown: its attributes, the channel and the data."""
        return {**self.attributes(), "channel": self.channel, "data": self.data}
