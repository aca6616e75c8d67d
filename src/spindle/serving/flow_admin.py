"""Saved flows over the admin API: administrators read, check, draw and draft them, the owner writes them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from spindle.domain.json_schema import JsonObject, is_object
from spindle.errors import FlowError, Interruption, InvalidArgumentsError, NotFoundError
from spindle.flows.text.files import FORMATS, MAX_SIZE, write
from spindle.listening.response import Response
from spindle.serving.flow_files import ChangedMeanwhileError, FlowText, files_of
from spindle.serving.problems import problem, respond
from spindle.serving.source_changes import require_owner
from spindle.threads import in_thread

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.domain.identity import Principal
    from spindle.serving.access import ServingAccess
    from spindle.serving.admin_request import AdminRequest
    from spindle.serving.flow_files import Judged

MAX_BODY: Final = 3 * MAX_SIZE
"""Bytes: JSON writes some characters longer than they are."""
SVG: Final = "image/svg+xml"


class FlowAdmin:
    """Answers what administrators ask of flows."""

    def __init__(
        self, spindle: Spindle, access: ServingAccess, did: Callable[[AdminRequest, str, str], None]
    ) -> None:
        """`did` notes a change in the audit log."""
        self._spindle = spindle
        self._access = access
        self._did = did
        self._files = files_of(spindle)

    async def listed(self, _: AdminRequest) -> JsonObject:
        """Answers with all files."""
        return {"flows": [{"name": file} for file in self._files.files()]}

    async def read(self, asked: AdminRequest) -> JsonObject:
        """Answers with a file."""
        found = await self._files.read(asked.name)
        problems = found.problems
        if found.text is not None:
            problems = (await self._judged(asked, found.text, found.format, found.place)).problems
        return {**_shown(found), "problems": [item.to_dict() for item in problems]}

    async def save(self, asked: AdminRequest) -> JsonObject | Response:
        """Takes a new text for a file."""
        require_owner(self._principal(asked), "change flows")
        body = await asked.body(MAX_BODY)
        text, version = _text(body, "text"), body.get("version")
        if version is not None and not isinstance(version, str):
            raise InvalidArgumentsError("version must be the text that came with the file")
        format = next((form for end, form in FORMATS.items() if asked.name.lower().endswith(end)), None)
        if format is None:
            raise NotFoundError(f"a flow's file ends in {', '.join(FORMATS)}")
        judged = await self._judged(asked, text, format, f"flows/{asked.name}")
        problems = [item.to_dict() for item in judged.problems]
        if judged.errors and body.get("anyway") is not True:
            count = f"{judged.errors} errors" if judged.errors > 1 else "an error"
            return respond({
                **problem(422, "client", f"the flow has {count}, so nothing was saved",
                          "mend it, or send `anyway`"),
                "problems": problems,
            })  # fmt: skip
        try:
            saved = await self._files.save(asked.name, text, version)
        except ChangedMeanwhileError as error:
            now = _shown(error.now) if error.now is not None else {}
            return respond({**problem(409, "conflict", error.message, error.hint), "now": now})
        self._did(asked, "flow.save", saved.place)
        return {**_shown(saved), "problems": problems}

    async def judge(self, asked: AdminRequest) -> JsonObject | Response:
        """Answers what a text is like that is not saved, or what fits words."""
        body = await asked.body(MAX_BODY)
        if asked.name == "draft":
            return await self._draft(asked, body)
        if asked.name == "extend":
            return await self._extend(body)
        if asked.name not in ("check", "draw"):
            raise NotFoundError("there is nothing here", hint="check, draw, extend or draft")
        format = body.get("format", "yaml")
        if format not in ("yaml", "json"):
            raise InvalidArgumentsError("format must be yaml or json")
        judged = await self._judged(asked, _text(body, "text"), format, str(body.get("file", "")))
        if asked.name == "check":
            return {
                "ok": not judged.errors,
                "is_readable": judged.definition is not None,
                "problems": [item.to_dict() for item in judged.problems],
            }
        if judged.definition is None:
            raise FlowError(judged.problems[0].message, hint=judged.problems[0].hint)
        return Response(await self._files.draw(judged.definition), media_type=SVG)

    async def _extend(self, body: JsonObject) -> JsonObject:
        from spindle.flows.text.extending import extended

        params, after = body.get("params", {}), body.get("after")
        if not is_object(params):
            raise InvalidArgumentsError("params must be an object")
        if after is not None and not isinstance(after, str):
            raise InvalidArgumentsError("after must be the id of a node")
        tool = _text(body, "tool")
        found = await self._files.read(_text(body, "file"))
        if found.text is None:
            raise FlowError(str(found.problems[0]))
        text = found.text
        made = await in_thread(lambda: extended(text, found.format, tool, params, after), "adding a node")
        return {**_shown(found), **made.to_dict()}

    async def _draft(self, asked: AdminRequest, body: JsonObject) -> JsonObject | Response:
        principal = self._principal(asked)
        try:
            draft = await self._spindle.draft_flow(
                _text(body, "words"), reuse=body.get("new") is not True, principal=principal
            )
        except Interruption as waits:
            return respond(problem(409, "consent", waits.message, "connect the source that it names first"))
        self._did(asked, "flow.draft", draft.definition.name)
        return {**draft.to_dict(), "text": write(draft.definition, "yaml")}

    async def _judged(self, asked: AdminRequest, text: str, format: Any, place: str) -> Judged:
        principal = self._principal(asked)
        sees = partial(self._access.shows, principal)
        return await self._files.judge(text, format, place[:300], principal, sees)

    def _principal(self, asked: AdminRequest) -> Principal:
        return self._access.principal(asked.request.scope)


def _text(body: JsonObject, name: str) -> str:
    found = body.get(name)
    if not isinstance(found, str):
        raise InvalidArgumentsError(f"{name} must be a text")
    return found


def _shown(found: FlowText) -> JsonObject:
    return {"name": found.file, "file": found.place, "text": found.text, "version": found.version}
