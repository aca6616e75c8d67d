"""The place that a link connects to, and the errors that name it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from spindle.domain.identity import Credential
from spindle.errors import CallTimeoutError, ConfigurationError, ConnectionFailedError, SpindleError
from spindle.sources.events.links.receiver import Receiver
from spindle.sources.events.servers import Endpoint


@dataclass(frozen=True, slots=True)
class Target:
    """Everything that is needed to open a link."""

    source: str
    endpoint: Endpoint
    credential: Credential
    publish_timeout: float
    connect_timeout: float
    max_size: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    secret: str | None = field(default=None, repr=False)
    receiver: Receiver | None = None
    """The server that receives webhooks."""
    public_only: bool = False

    @property
    def login(self) -> tuple[str, str] | None:
        """User and password, if the credential has them."""
        import base64
        import binascii

        for name, value in self.credential.headers:
            scheme, _, rest = value.partition(" ")
            if name.lower() == "authorization" and scheme.lower() == "basic":
                try:
                    user, _, password = base64.b64decode(rest, validate=True).decode().partition(":")
                except (binascii.Error, UnicodeDecodeError):
                    return None
                return user, password
        return None

    @property
    def token(self) -> str | None:
        for name, value in self.credential.headers:
            scheme, _, rest = value.partition(" ")
            if name.lower() == "authorization" and scheme.lower() == "bearer":
                return rest
        return None

    def said(self, error: BaseException | str) -> str:
        """The text of a library's error, without the password that its address may hold."""
        text, password = described(error), self.endpoint.parts.password
        return text.replace(password, "***") if password else text

    def inside(self) -> SpindleError:
        """The error for a server that is not outside, where somebody outside has named it."""
        return ConfigurationError(
            f"{self.endpoint.shown} is on this machine or a private network",
            hint=f"set sources.{self.source}.allow_private = true if that is meant",
            sent=False,
        )

    def unreachable(self, error: BaseException | str) -> SpindleError:
        """The error for a server that cannot be reached."""
        return ConnectionFailedError(
            f"cannot reach {self.endpoint.shown}: {self.said(error)}",
            hint=f"check that it runs, and sources.{self.source}.servers.{self.endpoint.name}.url",
            sent=False,
            unreachable=True,
        )

    def lost(self, error: BaseException | str, *, sent: bool = True) -> SpindleError:
        """The error for a connection that was lost before the acknowledgement."""
        return ConnectionFailedError(
            f"lost {self.endpoint.shown} before it acknowledged: {self.said(error)}", sent=sent
        )

    def not_acknowledged(self, *, sent: bool = True) -> SpindleError:
        """The error for an acknowledgement that did not come in time."""
        return CallTimeoutError(
            f"{self.endpoint.shown} did not acknowledge the event within {self.publish_timeout:g} s",
            hint=f"if it is only slow, raise sources.{self.source}.publish_timeout",
            sent=sent,
        )


def described(error: BaseException | str) -> str:
    """The text of an error, or the name of its class."""
    return error if isinstance(error, str) else str(error) or type(error).__name__
