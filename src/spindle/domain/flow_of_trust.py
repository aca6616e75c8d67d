"""The flow-of-trust policy: what a run may do once words of others have entered it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from spindle.domain.json_schema import JsonObject

Taint = Literal["ask", "block", "off"]
"""The fate of calls that send, write or spend after untrusted content came in: a person approves each,
none is made, or all are."""
_STRICT: Final[tuple[Taint, ...]] = ("off", "ask", "block")


@dataclass(frozen=True, slots=True)
class TrustPolicy:
    """The rules that hold for all steps of an agent's work, also those inside flows and other agents."""

    taint: Taint = "ask"
    send_to: tuple[str, ...] | None = None
    """Patterns of hosts and mail addresses, all that arguments may name. None: any."""

    def inside(self, outer: TrustPolicy | None) -> TrustPolicy:
        """Returns the policy of work that is done for other work: whoever delegates is not escaped."""
        if outer is None:
            return self
        taint = _STRICT[max(_STRICT.index(self.taint), _STRICT.index(outer.taint))]
        if self.send_to is None or outer.send_to is None:
            send_to = outer.send_to if self.send_to is None else self.send_to
        else:
            send_to = tuple(place for place in self.send_to if place in outer.send_to)
        return TrustPolicy(taint, send_to)

    def to_dict(self) -> JsonObject:
        return {"taint": self.taint, "send_to": None if self.send_to is None else list(self.send_to)}

    @classmethod
    def from_dict(cls, data: JsonObject) -> TrustPolicy:
        send_to = data.get("send_to")
        return cls(data.get("taint", "ask"), None if send_to is None else tuple(send_to))
