from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from spindle.auth.credentials import Credentials, configured
from spindle.domain.identity import LOCAL, NO_CREDENTIAL, Credential, Principal
from spindle.domain.source import SourceConfig
from spindle.http.credentials import bearer


def a_config(auth: dict[str, Any] | None) -> SourceConfig:
    return SourceConfig.model_validate({"kind": "mcp", "auth": auth})


@pytest.mark.parametrize(
    ("auth", "expected"),
    [
        (None, NO_CREDENTIAL),
        ({"type": "bearer", "token": "t"}, Credential(headers=(("Authorization", "Bearer t"),))),
        (
            {"type": "basic", "username": "ann", "password": "pä:ss"},
            Credential(headers=(("Authorization", "Basic YW5uOnDDpDpzcw=="),)),
        ),
        ({"type": "api_key", "name": "X-Key", "value": "v"}, Credential(headers=(("X-Key", "v"),))),
        ({"type": "api_key", "value": "v"}, Credential(headers=(("X-API-Key", "v"),))),
        ({"type": "api_key", "name": "k", "value": "v", "in": "query"}, Credential(query=(("k", "v"),))),
        ({"type": "api_key", "name": "k", "value": "v", "in": "cookie"}, Credential(cookies=(("k", "v"),))),
    ],
)
def test_each_kind_of_auth_becomes_its_part_of_a_request(auth: Any, expected: Credential) -> None:
    assert configured(a_config(auth)) == expected


def test_an_api_key_without_a_name_is_a_header_and_nothing_else() -> None:
    for place in ("query", "cookie"):
        with pytest.raises(ValidationError, match=f"name is missing: that of the {place} of the key"):
            a_config({"type": "api_key", "value": "v", "in": place})


async def test_a_principal_s_own_credential_wins_over_the_configured_one() -> None:
    async def own(source: str, principal: Principal) -> Credential | None:
        return bearer(f"{source}-{principal.id}") if principal.id == "ann" else None

    chosen = Credentials(own)
    config = a_config({"type": "bearer", "token": "shared"})
    assert await chosen.for_call("web", config, Principal("ann")) == bearer("web-ann")
    assert await chosen.for_call("web", config, LOCAL) == bearer("shared")
    assert await Credentials().for_call("web", config, Principal("ann")) == bearer("shared")
