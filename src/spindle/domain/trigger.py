"""Triggers, by which something elsewhere starts a flow: the `[triggers]` table."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, SecretStr, model_validator

from spindle.domain.retention import Age, Count
from spindle.domain.run import DEFAULT_QUEUE, USUAL_PRIORITY
from spindle.domain.section import Section

TriggerKind = Literal["channel", "webhook", "folder", "resource"]
SHORTEST_SECRET = 16


class KeepTaken(Section):
    """The limits of files that were taken: what is over one of them goes, the oldest first."""

    age: Age = Field(default=90 * 86400.0, description="the longest time, such as `30d`")
    count: Count = Field(default=10_000, description="the largest number")


class TriggerConfig(Section):
    """A trigger of a flow: one of `channel`, `webhook`, `folder` and `resource`."""

    flow: str = Field(description="the name of a saved flow, or a line of tools")
    inputs: dict[str, Any] = Field(
        default_factory=dict[str, Any], description="inputs of the flow, with templates over `event`"
    )
    queue: str = DEFAULT_QUEUE
    priority: int = Field(default=USUAL_PRIORITY, ge=1)
    channel: str | None = Field(
        default=None,
        description="events of the workspace's documents whose channel or type fits this pattern",
    )
    webhook: bool = Field(default=False, description="signed calls of `/hooks/NAME` of `spindle serve`")
    secret: SecretStr | None = Field(default=None, description="the key that webhooks are signed with")
    folder: str | None = Field(default=None, description="files that are put into this folder")
    pattern: str = Field(default="*", description="the names of files that are taken")
    settle: float = Field(
        default=2.0, ge=0.1, description="seconds for which a file must not have changed before it is taken"
    )
    keep: KeepTaken = Field(
        default_factory=KeepTaken, description="for how long, and how many, files that were taken are kept"
    )
    resource: str | None = Field(default=None, description="changes of this resource of an MCP server")
    source: str | None = Field(default=None, description="the source of the channel or the resource")
    untrusted: bool = Field(
        default=True,
        description="whether what comes with the event is words of others, after which agents of the flow ask"
        " before they act",
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        given = [name for name in ("channel", "folder", "resource") if getattr(self, name) is not None]
        given += ["webhook"] if self.webhook else []
        if len(given) != 1:
            raise ValueError(
                "it needs one of `channel`, `webhook = true`, `folder` and `resource`"
                + (f", and has {' and '.join(given)}" if given else "")
            )
        if self.webhook and (self.secret is None or len(self.secret.get_secret_value()) < SHORTEST_SECRET):
            raise ValueError(
                f"a webhook needs a `secret` of {SHORTEST_SECRET} characters, such as ${{HOOK_SECRET}}"
            )
        for name, kinds in _ONLY_FOR.items():
            if name in self.model_fields_set and self.kind not in kinds:
                raise ValueError(f"`{name}` is not for a trigger by `{self.kind}`")
        return self

    @property
    def kind(self) -> TriggerKind:
        if self.webhook:
            return "webhook"
        if self.folder is not None:
            return "folder"
        return "channel" if self.channel is not None else "resource"

    @property
    def what(self) -> str:
        """Its occasion, in a few words."""
        return f"{self.kind} {self.channel or self.folder or self.resource or ''}".rstrip()


_ONLY_FOR = {
    "secret": ("webhook",), "pattern": ("folder",), "settle": ("folder",), "keep": ("folder",),
    "source": ("channel", "resource"),
}  # fmt: skip
