"""Resources, prompts and completions of sources, passed on to the clients of the server. Large files that
tools returned are resources too."""

from __future__ import annotations

import asyncio
import base64
import re
from pathlib import Path
from typing import TYPE_CHECKING

from spindle.calls.relay import MAX_REMEMBERED, OWN, SourceRelay
from spindle.domain.bounded import BoundedMap
from spindle.domain.json_schema import JsonObject, is_object
from spindle.domain.passing import passed
from spindle.errors import NotFoundError, ResultTooLargeError

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.calls.requests import Client
    from spindle.domain.identity import Principal
    from spindle.ports.source import Note
    from spindle.serving.access import ServingAccess

MAX_FILE = 16 * 1024 * 1024
FILES = "files"

_FILE_NAME = re.compile(r"[0-9a-f]{32}\.[A-Za-z0-9]+")


class ClientRelay(SourceRelay):
    """Passes resources, prompts and completions of sources, and files that tools returned, on to clients."""

    def __init__(self, app: Spindle, access: ServingAccess, note: Note) -> None:
        super().__init__(app.requests, access.offers, note)
        self._app = app
        self._issued: BoundedMap[tuple[str, str], None] = BoundedMap(MAX_REMEMBERED)

    async def read(self, principal: Principal, params: JsonObject, client: Client) -> JsonObject:
        """The contents of a resource or of a file that a tool returned."""
        uri = str(params["uri"])
        if uri.startswith(f"{OWN}{FILES}/"):
            return await self._read_file(principal, uri)
        return await super().read(principal, params, client)

    async def request(
        self,
        source: str,
        principal: Principal,
        method: str,
        params: JsonObject,
        offer: str | None = None,
        client: Client | None = None,
    ) -> JsonObject:
        """Makes a request of one source, without what the client and the source said of themselves."""
        result = await super().request(source, principal, method, without_ours(params), offer, client)
        meta = result.get("_meta")
        if is_object(meta):
            del result["_meta"]  # who answers is Spindle
            result |= {"_meta": kept} if (kept := passed(meta)) else {}
        return result

    # --- files that tools returned

    def file_link(self, principal: Principal, path: str) -> str:
        """The address under which this principal may read a file that a tool returned."""
        name = Path(path).name
        self._issued[(principal.id, name)] = None
        return f"{OWN}{FILES}/{name}"

    async def _read_file(self, principal: Principal, uri: str) -> JsonObject:
        name = uri.removeprefix(f"{OWN}{FILES}/")
        if not _FILE_NAME.fullmatch(name) or (principal.id, name) not in self._issued:
            raise NotFoundError(f"there is no resource {uri!r}", details={"uri": uri})
        path = self._app.settings.state_folder / "files" / name
        try:
            data = await asyncio.to_thread(_read_bounded, path)
        except FileNotFoundError:
            raise NotFoundError(f"there is no resource {uri!r} any more", details={"uri": uri}) from None
        return {"contents": [{"uri": uri, "blob": base64.b64encode(data).decode()}]}


def without_ours(params: JsonObject) -> JsonObject:
    """The parameters without what a client said to us about itself."""
    meta = params.get("_meta")
    if not is_object(meta):
        return params
    kept = passed(meta)
    rest = {key: value for key, value in params.items() if key != "_meta"}
    return {**rest, "_meta": kept} if kept else rest


def _read_bounded(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(MAX_FILE + 1)
    if len(data) > MAX_FILE:
        raise ResultTooLargeError(
            f"{path.name} is larger than {MAX_FILE} bytes",
            hint="it is in the workspace's .spindle/files folder",
        )
    return data
