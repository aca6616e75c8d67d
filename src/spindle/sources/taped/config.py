"""The settings of a source that is played from a tape."""

from __future__ import annotations

from spindle.domain.source import SourceConfig, may_destroy
from spindle.domain.tool import Hints


class TapedConfig(SourceConfig):
    """The settings that the source has, without those that only its server needs."""

    was: str
    """The kind that it was of, by which its hints are judged."""

    @property
    def trusts_hints(self) -> bool:
        return self.pinned or self.trust_hints or self.was != "mcp"

    def may_destroy(self, hints: Hints) -> bool:
        return may_destroy(hints, self.was, trusted=self.trusts_hints)
