"""Takes over an OpenAgents network: who may use its tools from outside, and its tools and events."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from spindle.cli.client_secrets import SecretVariables
from spindle.cli.client_servers import ImportedServer, legal_name
from spindle.domain.json_schema import JsonObject, is_array, is_object
from spindle.errors import ConfigurationError

FOLDERS = {"tools": "python", "events": "events"}
TOKEN = "MCP_AUTH_TOKEN"  # noqa: S105 - the variable that OpenAgents' own documentation uses
_TEXTS = ("default_agent_group", "auth_token", "auth_token_env", "instruction")
_LISTS = ("exposed_tools", "excluded_tools")


def read_network(
    data: JsonObject, file: Path, workspace: Path, variables: SecretVariables
) -> tuple[list[ImportedServer], JsonObject, list[str]]:
    """Returns the folders beside the file as sources, the settings of `[serve]`, and notes."""
    home = file.resolve().parent
    found: list[ImportedServer] = []
    for folder, kind in FOLDERS.items():
        place = home / folder
        if not place.is_dir():
            continue
        server = ImportedServer(legal_name(f"{home.name}-{folder}"), file)
        if os.path.realpath(home) == os.path.realpath(workspace):
            server.name, server.left_out = (
                folder,
                f"is the workspace's own folder {folder}/, a source already",
            )
        else:
            server.table = {"kind": kind, "path": os.path.relpath(place, workspace), "prefix": False}
        found.append(server)
    serve, notes = _serve(data.get("external_access"), file, home, variables)
    network = data.get("network")
    if data.get("mods") or (is_object(network) and network.get("mods")):
        notes.append("its mods are not taken over: classes in mods/ of the workspace take their place")
    if not found and not serve and not notes:
        raise ConfigurationError(
            f"{file} has no `external_access`, and no folder tools/ or events/ is beside it",
            hint="name the network.yaml of an OpenAgents workspace",
        )
    return found, serve, notes


def _serve(access: Any, file: Path, home: Path, variables: SecretVariables) -> tuple[JsonObject, list[str]]:
    if access is None:
        return {}, []
    if not is_object(access):
        raise ConfigurationError(f"{file}: `external_access` must be an object")
    serve: JsonObject = {}
    notes: list[str] = []
    for key, value in access.items():
        if value is None:
            continue
        fits = isinstance(value, str) if key in _TEXTS else is_array(value) if key in _LISTS else None
        if fits is None:
            notes.append(f"external_access.{key} has no counterpart here")
        elif not fits:
            wanted = "text" if key in _TEXTS else "a list of names"
            raise ConfigurationError(f"{file}: external_access.{key} must be {wanted}")
        else:
            serve[key] = value
    secret = serve.pop("auth_token", None)
    if secret is not None and "auth_token_env" not in serve:
        serve["auth_token_env"] = variables.name_for(home.name, TOKEN, secret)
        notes.append(
            f"external_access.auth_token is a secret and was not copied: set the environment variable "
            f"{serve['auth_token_env']}"
        )
    instruction = serve.get("instruction")
    if isinstance(instruction, str) and "\n" not in instruction and (home / instruction).is_file():
        serve["instruction"] = str(home / instruction)
    return serve, notes
