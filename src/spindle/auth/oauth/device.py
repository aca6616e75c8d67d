"""Consent on another device (RFC 8628): the user types a short code there, and we ask until it is done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spindle.auth.oauth.clients import DEVICE_GRANT
from spindle.auth.oauth.consent import Completed, oauth_settings, to_stored, wanted_scopes
from spindle.auth.oauth.discovery import binding
from spindle.auth.oauth.http import OAuthProblem, origin, refused
from spindle.auth.oauth.token_endpoint import OAuthClient, ask_for_tokens, authenticate
from spindle.errors import AuthError, ConfigurationError, ConnectionFailedError, ServerError

if TYPE_CHECKING:
    from spindle.auth.oauth.parts import OAuthParts
    from spindle.domain.source import SourceConfig

INTERVAL = 5.0
LONGEST = 1800.0


@dataclass(frozen=True, slots=True)
class DeviceLogin:
    """A login on another device: the code for the user, and the data to continue with."""

    source: str
    provider: str
    user_code: str
    verification_url: str
    complete_url: str | None
    """The same with the code in it, where the provider offers that."""
    expires_at: float
    interval: float
    found: dict[str, Any] = field(repr=False)
    client: OAuthClient = field(repr=False)


class DeviceFlow:
    """Logs users in on another device."""

    def __init__(self, parts: OAuthParts) -> None:
        self._oauth = parts

    async def begin(
        self, source: str, config: SourceConfig, principal: str, scopes: Sequence[str], redirect_uri: str
    ) -> DeviceLogin:
        auth = oauth_settings(source, config)
        provider = await self._oauth.discovery.provider(source, config)
        if provider.device_url is None:
            raise ConfigurationError(
                f"{provider.name} has no login for other devices",
                hint="log in with a browser on this machine, without --device",
                source=source,
            )
        client = await self._oauth.clients.client(source, auth, provider, redirect_uri)
        wanted = wanted_scopes(auth, provider, scopes)
        form = {"scope": " ".join(wanted), **({"resource": provider.resource} if provider.resource else {})}
        headers = authenticate(client, form)
        answer = await self._oauth.http.post_form(
            provider.device_url, form, headers, found_by=provider.found_by
        )
        given = (answer.json() if answer.status == 200 else None) or {}
        texts = [given.get(key) for key in ("device_code", "user_code", "verification_uri")]
        if not all(isinstance(text, str) and text for text in texts):
            raise refused(
                answer, "a login from another device", origin(provider.device_url), frozenset()
            ).about(source=source)
        device_code, user_code, url = (str(text) for text in texts)
        complete_url = given.get("verification_uri_complete")
        for shown in (url, complete_url):
            if isinstance(shown, str):
                await self._oauth.http.check(shown, found_by=provider.found_by)
        found = {
            "source": source,
            "principal": principal,
            "device_code": device_code,
            "token_url": provider.token_url,
            "revocation_url": provider.revocation_url,
            "issuer": provider.issuer,
            "provider": provider.name,
            "found_by": provider.found_by,
            "resource": provider.resource,
            "scopes": list(wanted),
            "binding": binding(config),
        }
        lasts = min(_seconds(given.get("expires_in"), 600.0), LONGEST)
        return DeviceLogin(
            source=source,
            provider=provider.name,
            user_code=user_code[:100],
            verification_url=url,
            complete_url=complete_url if isinstance(complete_url, str) else None,
            expires_at=self._oauth.now() + lasts,
            interval=max(_seconds(given.get("interval"), INTERVAL), 0.0),
            found=found,
            client=client,
        )

    async def wait(self, login: DeviceLogin, sleep: Callable[[float], Awaitable[None]]) -> Completed:
        """Returns when the user has decided."""
        interval, found = login.interval, login.found
        form = {
            "grant_type": DEVICE_GRANT,
            "device_code": found["device_code"],
            "resource": found["resource"],
        }
        while self._oauth.now() < login.expires_at:
            await sleep(interval)
            try:
                grant = await ask_for_tokens(
                    self._oauth.http, found["token_url"], login.client, form,
                    found_by=found["found_by"], what="the login",
                )  # fmt: skip
            except OAuthProblem as problem:
                match problem.code:
                    case "authorization_pending":
                        continue
                    case "slow_down":
                        interval += INTERVAL
                        continue
                    case "access_denied":
                        return Completed(
                            login.source, found["principal"], login.provider, denied=problem.message
                        )
                    case "expired_token":
                        break
                    case "invalid_client":
                        await self._oauth.clients.forget(login.client)
                    case _:
                        pass
                raise problem.about(source=login.source) from None
            except (ServerError, ConnectionFailedError) as error:
                if not error.retryable:
                    raise
                interval += INTERVAL  # as the standard asks: slower while the provider is not well
                continue
            stored = to_stored(found, login.client, grant, self._oauth.now())
            await self._oauth.shelf.save(stored)
            return Completed(stored.source, stored.principal, stored.provider, stored.scopes)
        raise AuthError(
            f"the code for {login.provider} has expired before it was entered",
            hint="start the login again",
            source=login.source,
        )


def _seconds(value: Any, default: float) -> float:
    return float(value) if isinstance(value, (int, float)) and value >= 0 else default
