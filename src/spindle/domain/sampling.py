"""The settings of sampling: the `[sampling]` table, for servers that ask for a language model."""

from __future__ import annotations

from pydantic import Field

from spindle.domain.source import RateLimit, Section


class SamplingConfig(Section):
    """The model that answers servers, and what they may ask of it. A server is answered only if `answers` of
    its source says so; the limits are for every model of ours, also that of an agent."""

    model: str | None = Field(
        default=None,
        min_length=1,
        description="`provider:name`: answers where whoever made the call has no model of their own",
    )
    max_requests: int = Field(default=10, gt=0, description="answers during one call")
    max_tokens: int = Field(default=4096, gt=0, description="of one answer, whatever the server asks for")
    max_input: int = Field(default=200_000, gt=0, description="characters that a server may send at once")
    timeout: float = Field(default=60.0, gt=0, description="seconds for one answer")
    rate_limit: RateLimit | None = Field(default=None, description="answers for one user, such as '100/hour'")
    approve: bool = Field(default=False, description="whether a person must allow each answer")
