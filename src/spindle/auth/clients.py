"""Identifies the clients of our own server by their tokens."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from spindle.auth.issued import IssuedTokens
from spindle.auth.issuer import Issuer
from spindle.domain.identity import LOCAL, Principal
from spindle.errors import AuthError, ConfigurationError, suggest

if TYPE_CHECKING:
    from spindle.domain.json_schema import JsonObject
    from spindle.domain.serve import ServeConfig, TokenConfig

CLIENT = "client"
"""The principal of clients that send the server's one token."""
_MAX_USER = 256
NONE_ISSUED = IssuedTokens()
_MAX_GROUPS = 1000
# An issuer's user of such a name would be taken for the owner of the workspace, or for another client.
RESERVED = frozenset({LOCAL.id, CLIENT})


class KnownClients:
    """All that are known. Without any token to show, everybody is the owner of the workspace."""

    def __init__(
        self,
        tokens: Sequence[tuple[str, Principal]],
        issuer: Issuer | None,
        default_group: str,
        issued: IssuedTokens = NONE_ISSUED,
    ) -> None:
        """`issued` are the tokens in the store."""
        self._issued = issued
        self._tokens = [(_digest(token), principal) for token, principal in tokens]
        self.issuer = issuer
        self._default = frozenset({default_group})
        self.owner = Principal(LOCAL.id, self._default)

    @classmethod
    def of(
        cls,
        config: ServeConfig,
        environ: Mapping[str, str],
        known: Issuer | None = None,
        issued: IssuedTokens = NONE_ISSUED,
    ) -> KnownClients:
        """`known` is an issuer whose keys are at hand; it is used where the settings mean the same."""
        default = frozenset({config.default_agent_group})
        tokens: dict[str, tuple[str, Principal]] = {}
        one = _written(config.auth_token, config.auth_token_env, "serve.auth_token_env", environ)
        if one is not None:
            tokens["serve.auth_token"] = (one, Principal(CLIENT, default))
        for name, entry in config.tokens.items():
            place = f"serve.tokens.{name}"
            token = _written(entry.token, entry.token_env, f"{place}.token_env", environ)
            assert token is not None, "the settings want one of both"
            tokens[place] = (token, _principal(name, entry, default))
        _refuse_twins(tokens)
        issuer = None
        if config.jwt is not None:
            issuer = known if known is not None and known.config == config.jwt else Issuer(config.jwt)
        return cls(list(tokens.values()), issuer, config.default_agent_group, issued)

    @property
    def wants_token(self) -> bool:
        return bool(self._tokens) or self.issuer is not None or bool(self._issued)

    @property
    def are_lasting(self) -> bool:
        """True if no token ends by itself, so that who has shown one is known as long as these are."""
        return self.issuer is None and not self._issued

    async def identify(self, shown: str | None) -> Principal:
        """Raises AuthError where a token is wanted and this is none, and whatever `Issuer.claims` does."""
        if not self.wants_token:
            return self.owner
        if shown is None:
            raise AuthError("a bearer token is needed", hint="send Authorization: Bearer …")
        digest, found = _digest(shown), None
        # All of them are compared, each in the same time: how long it takes tells nothing.
        for known, principal in self._tokens:
            if hmac.compare_digest(known, digest):
                found = principal
        if found is not None:
            return found
        issued = self._issued.find(shown, time.time())
        if issued is not None:
            return issued.principal(self._default)
        if self.issuer is None:
            raise AuthError("the bearer token is not valid", hint="send Authorization: Bearer …")
        return self._of_claims(self.issuer, await self.issuer.claims(shown))

    def _of_claims(self, issuer: Issuer, claims: JsonObject) -> Principal:
        user = _claim(claims, issuer.config.user_claim)
        if not isinstance(user, str) or not user.strip() or len(user) > _MAX_USER:
            raise AuthError(f"the token's {issuer.config.user_claim} names nobody")
        if user in RESERVED:
            raise AuthError(f"the token's {issuer.config.user_claim} is a name that Spindle uses itself")
        groups = _texts(_claim(claims, issuer.config.groups_claim))
        return Principal(user, groups or self._default, not groups.isdisjoint(issuer.config.admin_groups))


def _principal(name: str, entry: TokenConfig, default: frozenset[str]) -> Principal:
    return Principal(entry.user or name, frozenset(entry.groups) or default, entry.admin)


def _written(token: str | None, variable: str | None, place: str, environ: Mapping[str, str]) -> str | None:
    """A variable that is named and not set is an error: a server must never be open by accident."""
    if variable is None:
        return None if token is None else token.strip()
    found = environ.get(variable, "").strip()
    if not found:
        meant = None if variable in environ else suggest(variable, environ)
        problem = "not set to anything" if variable in environ else "not set"
        raise ConfigurationError(
            f"{place} names the variable {variable}, which is {problem}",
            hint=f"did you mean {meant}?" if meant else f"export {variable}=…",
        )
    return found


def _refuse_twins(tokens: Mapping[str, tuple[str, Principal]]) -> None:
    seen: dict[str, str] = {}
    for place, (token, _) in tokens.items():
        other = seen.setdefault(token, place)
        if other != place:
            raise ConfigurationError(
                f"{other} and {place} are the same token, so it is not clear who shows it",
                hint="give each client a token of its own",
            )


def _claim(claims: JsonObject, name: str) -> Any:
    """The claim of this name, or the one inside others that a name with dots leads to."""
    if name in claims:
        return claims[name]
    node: Any = claims
    for step in name.split("."):
        node = cast("dict[str, Any]", node).get(step) if isinstance(node, dict) else None
    return node


def _texts(value: Any) -> frozenset[str]:
    items = [value] if isinstance(value, str) else cast("list[Any]", value) if isinstance(value, list) else []
    return frozenset(item for item in items[:_MAX_GROUPS] if isinstance(item, str))


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
