"""The history of a run, read for an execution of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from spindle.domain.json_schema import is_object

if TYPE_CHECKING:
    from spindle.auth.encryption import Sealer
    from spindle.calls.options import CallOptions
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.run import RunEvent

_UNTRUSTED = "#untrusted"
_LATER = re.compile(r"~\d+$")
"""The end of the path of a step that was recorded after a retry. Other paths end in `:` and a number."""


class RunRecord:
    """The steps of a run as far as they are known. After a retry those that failed are not known any more."""

    def __init__(self, history: Sequence[RunEvent], sealer: Sealer) -> None:
        self.outcomes: dict[str, RunEvent] = {}
        """By place, the outcomes of steps."""
        self.begun: dict[str, RunEvent] = {}
        """By place, the calls that were begun and have no known end."""
        self.noted: set[str] = set()
        self.untrusted: str | None = None
        """The tool that brought untrusted content into the run first."""
        self.before: set[str] = set()
        """The places whose calls were begun before that."""
        self.retries = 0
        self.takeovers = 0
        """The number of times that it was taken up since it last came further."""
        self.came_further = False
        """True if it has ever made a step, paused or been retried."""
        places: set[str] = set()
        for event in history:
            if event.kind in ("step", "begun", "stopped"):
                place = _LATER.sub("", event.path)
                if event.kind == "begun":
                    self.begun[place] = event
                    if self.untrusted is None:
                        self.before.add(place)
                else:
                    self.begun.pop(place, None)
                if event.kind == "step":
                    self.outcomes[place] = event
                if event.kind != "stopped":
                    places.add(place)
            elif event.kind == "note":
                self.noted.add(event.path)
                self.untrusted = self.untrusted or origin_in(event.path)
            elif event.kind == "retried":
                self.retries += 1
                self._forget_failures(history, sealer)
            if event.kind == "resumed":
                self.takeovers += 1
            elif event.kind in ("step", "paused", "retried"):
                self.takeovers, self.came_further = 0, True
        self.steps = sorted(places)

    def path(self, place: str) -> str:
        """The path under which a step at this place is recorded now: the first outcome of a path stays."""
        return f"{place}~{self.retries}" if self.retries else place

    def _forget_failures(self, history: Sequence[RunEvent], sealer: Sealer) -> None:
        def failed(event: RunEvent) -> bool:
            if event.sealed is None:
                return False
            content = sealer.open(event.sealed, f"run:{event.run}:{event.path}")
            result = content.get("result")
            return bool(content.get("error") or (is_object(result) and result.get("is_error")))

        self.outcomes = {place: event for place, event in self.outcomes.items() if not failed(event)}
        notes = [event for event in history if event.kind == "note" and event.path in self.noted]
        self.noted -= {event.path for event in notes if failed(event)}


def mark_of(path: str, origin: str = "") -> str:
    """Returns the path of the note that untrusted content came in at this place, or from `origin`."""
    return f"{path}/{origin}:0:0{_UNTRUSTED}" if origin else f"{path}{_UNTRUSTED}"


def origin_in(path: str) -> str | None:
    """Returns what brought untrusted content in, of the path of a note that it did."""
    if not path.endswith(_UNTRUSTED):
        return None
    return path.removesuffix(_UNTRUSTED).rpartition("/")[2].rsplit(":", 2)[0]


def kept(given: JsonObject, options: CallOptions) -> JsonObject:
    """Returns what another process needs to continue a run: what it was given, and how."""
    return {
        **given,
        "timeout": options.timeout,
        "use_cache": options.use_cache,
        "raise_tool_errors": options.raise_tool_errors,
        **({"for_model": True} if options.for_model else {}),
    }
