"""The admin API at `/admin/v1`: tokens, groups, quotas, sources and the audit log, for administrators.

It needs a token with `admin`, also on a server that lets everybody on this machine in.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import Field, ValidationError
from starlette.datastructures import QueryParams
from starlette.requests import ClientDisconnect, Request

from spindle.domain.audit import AuditFilter
from spindle.domain.json_schema import JsonObject, to_json
from spindle.domain.section import Section
from spindle.errors import InvalidArgumentsError, NotFoundError, PermissionDeniedError, SpindleError
from spindle.listening.response import Response
from spindle.serving.admin_document import document
from spindle.serving.admin_request import AdminRequest
from spindle.serving.administration import Administration, Administrator, administered
from spindle.serving.problems import of_error, problem, respond

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from spindle.app import Spindle
    from spindle.domain.access_entry import AccessKind
    from spindle.domain.serve import ServeConfig
    from spindle.serving.access import ServingAccess
    from spindle.serving.flow_admin import FlowAdmin

MAX_PAGE: Final = 1000

Handler = Callable[[AdminRequest], Awaitable[Any]]


class _NewToken(Section):
    name: str
    user: str | None = None
    groups: tuple[str, ...] = ()
    admin: bool = Field(default=False, strict=True)
    expires_in: float | None = Field(default=None, gt=0, lt=2**53)

    @classmethod
    def checked(cls, body: JsonObject) -> _NewToken:
        """Raises InvalidArgumentsError for anything else."""
        try:
            return cls.model_validate(body)
        except ValidationError as error:
            first = error.errors()[0]
            raise InvalidArgumentsError(
                f"{'.'.join(map(str, first['loc']))}: {first['msg']}",
                hint="give `name`, and perhaps `user`, `groups` (a list), `admin` (true or false) and"
                " `expires_in` (seconds)",
            ) from None


class AdminApi:
    """Answers the requests of administrators."""

    def __init__(self, spindle: Spindle, access: ServingAccess, root: str) -> None:
        """`root`: the path that all of it is below."""
        self._spindle = spindle
        self._access = access
        self._root = root
        self._of_flows: FlowAdmin | None = None
        self._administration = Administration(spindle.store, self._config)
        self._routes: Mapping[tuple[str, str, bool], Handler] = {
            ("GET", "", False): self._index,
            ("GET", "tokens", False): self._tokens,
            ("POST", "tokens", False): self._create_token,
            ("DELETE", "tokens", True): self._revoke_token,
            ("GET", "groups", False): self._groups,
            ("PUT", "groups", True): self._set_group,
            ("DELETE", "groups", True): self._remove("group"),
            ("GET", "quotas", False): self._quotas,
            ("PUT", "quotas", True): self._set_quota,
            ("DELETE", "quotas", True): self._remove("quota"),
            ("GET", "sources", False): self._sources,
            ("GET", "openapi.json", False): self._document,
            ("POST", "sources", False): self._add_source,
            ("POST", "sources", True): self._change_source,
            ("GET", "sources", True): self._log,
            ("GET", "flows", False): self._flows("listed"),
            ("GET", "flows", True): self._flows("read"),
            ("PUT", "flows", True): self._flows("save"),
            ("POST", "flows", True): self._flows("judge"),
            ("GET", "audit", False): self._audit,
        }

    def _config(self) -> ServeConfig:
        return administered(self._spindle, self._access)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await self._answer(Request(scope, receive))
        except ClientDisconnect:
            return
        except SpindleError as error:
            # Whoever administrates reads the hints that are kept from other clients.
            told = {"hint": error.hint} if error.hint else {}
            response = respond({**of_error(error), **told})
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        principal = self._access.principal(request.scope)
        if not principal.admin:
            refused = PermissionDeniedError(
                "only an administrator may do this",
                hint="show a token that was made for an administrator",
            )
            if self._access.audit is not None:
                target = f"{request.method} {request.url.path}"
                self._access.audit.did(principal, "admin", target, refused)
            raise refused
        place, _, name = request.url.path.removeprefix(self._root).strip("/").partition("/")
        route = self._routes.get((request.method, place, bool(name)))
        if route is None:
            known = sorted(
                {method for method, at, named in self._routes if (at, named) == (place, bool(name))}
            )
            if known:
                return respond(problem(405, "client", "method not allowed"), {"Allow": ", ".join(known)})
            raise NotFoundError("there is nothing here", hint=f"GET {self._root} lists what there is")
        client = request.client
        by = Administrator(principal.id, "http", client.host if client else "")
        answer = await route(AdminRequest(request, by, name))
        if request.method != "GET" and self._access.look_for_changes is not None:
            await self._access.look_for_changes()  # so that it is in force by the time of the answer
        if isinstance(answer, Response):
            return answer
        return Response(to_json(answer, default=str), media_type="application/json")

    async def _index(self, _: AdminRequest) -> JsonObject:
        paths = sorted(
            f"{method} {self._root}{f'/{at}' if at else ''}{'/NAME' if named else ''}"
            for method, at, named in self._routes
        )
        return {"paths": paths}

    # --- tokens, groups and quotas

    async def _tokens(self, _: AdminRequest) -> JsonObject:
        now = time.time()
        made = [token.to_dict(now) for token in await self._administration.tokens()]
        written = [
            {"name": name, "user": token.user or name, "groups": list(token.groups), "admin": token.admin,
             "state": "good", "from": "settings"}
            for name, token in self._config().tokens.items()
        ]  # fmt: skip
        return {"tokens": [*written, *made]}

    async def _create_token(self, asked: AdminRequest) -> Response:
        body = await asked.body()
        wanted = _NewToken.checked(body)
        token, text = await self._administration.create_token(
            asked.by,
            wanted.name,
            user=wanted.user,
            groups=wanted.groups,
            admin=wanted.admin,
            expires_in=wanted.expires_in,
        )
        body = {**token.to_dict(time.time()), "token": text}
        return Response(to_json(body), 201, {"Cache-Control": "no-store"}, "application/json")

    async def _revoke_token(self, asked: AdminRequest) -> JsonObject:
        revoked = await self._administration.revoke_token(asked.by, asked.name)
        return revoked.to_dict(time.time())

    async def _groups(self, _: AdminRequest) -> JsonObject:
        made = await self._administration.groups()
        return {"groups": _listed(self._config().groups, made)}

    async def _set_group(self, asked: AdminRequest) -> JsonObject:
        group = await self._administration.set_group(asked.by, asked.name, await asked.body())
        return {"name": asked.name, **group.model_dump(mode="json")}

    async def _quotas(self, _: AdminRequest) -> JsonObject:
        made = await self._administration.quotas()
        return {"quotas": _listed(self._config().quotas.rules, made)}

    async def _set_quota(self, asked: AdminRequest) -> JsonObject:
        quota = await self._administration.set_quota(asked.by, asked.name, await asked.body())
        return {"name": asked.name, **quota.model_dump(mode="json", exclude_defaults=True)}

    def _remove(self, kind: AccessKind) -> Handler:
        async def remove(asked: AdminRequest) -> JsonObject:
            await self._administration.remove(asked.by, kind, asked.name)
            return {"name": asked.name, "removed": True}

        return remove

    # --- sources and the audit log

    async def _sources(self, _: AdminRequest) -> JsonObject:
        catalog = self._spindle.catalog
        states = await catalog.states()
        found: list[JsonObject] = []
        for name in catalog.sources.names:
            state = states.get(name)
            found.append({
                "name": name,
                "kind": state.kind if state else catalog.sources.table(name).get("kind", "mcp"),
                "tools": state.tool_count if state else 0,
                "held": state.held_count if state else 0,
                "synced_at": state.synced_at if state else None,
                "error": state.error if state else None,
            })  # fmt: skip
        return {"sources": found}

    async def _document(self, _: AdminRequest) -> JsonObject:
        return document()

    async def _add_source(self, asked: AdminRequest) -> Response:
        from spindle.serving.source_changes import add_sources, require_owner, tables_of

        principal = self._access.principal(asked.request.scope)
        require_owner(principal)
        tables = tables_of(await asked.body())
        reports = await add_sources(self._spindle, tables)
        self._did(asked, "source.add", ", ".join(tables))
        body = {"name": next(iter(tables)), "sources": reports}
        return Response(to_json(body, default=str), 201, media_type="application/json")

    async def _change_source(self, asked: AdminRequest) -> JsonObject:
        name, verb = self._source(asked, ("sync", "reconnect"))
        if verb == "reconnect":
            await self._spindle.catalog.connections.close_source(name)
            self._did(asked, "source.reconnect", name)
            return {"name": name, "reconnected": True}
        accept: Any = (await asked.body()).get("accept", ()) if asked.has_body else ()
        if accept is not True and not _are_texts(accept):
            raise InvalidArgumentsError("accept must be a list of tools, or true for all")
        (report,) = await self._spindle.sync(name, accept=accept)
        self._did(asked, "source.sync", name)
        return report.to_dict()

    async def _log(self, asked: AdminRequest) -> JsonObject:
        name, _ = self._source(asked, ("log",))
        sessions = self._spindle.catalog.connections.sessions(name)
        return {"name": name, "log": [session.log() for session in sessions if session.log is not None]}

    def _flows(self, verb: str) -> Handler:
        async def handle(asked: AdminRequest) -> Any:
            if self._of_flows is None:  # most servers are never asked
                from spindle.serving.flow_admin import FlowAdmin

                self._of_flows = FlowAdmin(self._spindle, self._access, self._did)
            return await getattr(self._of_flows, verb)(asked)

        return handle

    def _source(self, asked: AdminRequest, verbs: tuple[str, ...]) -> tuple[str, str]:
        """The source that a path names, and what is wanted of it."""
        name, _, verb = asked.name.rpartition("/")
        if verb not in verbs:
            raise NotFoundError("there is nothing here", hint=f"{self._root}/sources/NAME/{verbs[0]}")
        self._spindle.catalog.sources.table(name)
        return name, verb

    def _did(self, asked: AdminRequest, action: str, target: str) -> None:
        if self._access.audit is not None:
            self._access.audit.did(self._access.principal(asked.request.scope), action, target)

    async def _audit(self, asked: AdminRequest) -> JsonObject:
        given = asked.query
        known = ("principal", "action", "target", "allowed", "since", "until", "limit", "after")
        for name in given:
            if name not in known:
                raise InvalidArgumentsError(
                    f"there is no parameter {name!r}", hint=f"known: {', '.join(known)}"
                )
        allowed = given.get("allowed")
        if allowed not in (None, "true", "false"):
            raise InvalidArgumentsError("allowed must be true or false")
        where = AuditFilter(
            given.get("principal"), given.get("action"), given.get("target"),
            None if allowed is None else allowed == "true",
            _number(given, "since"), _number(given, "until"),
        )  # fmt: skip
        limit, after = _number(given, "limit"), _number(given, "after")
        entries = await self._spindle.store.audit(
            where,
            limit=int(min(max(limit or 100, 1), MAX_PAGE)),
            after=None if after is None else int(after),
        )
        return {"entries": [entry.to_dict() for entry in entries]}


def _are_texts(value: Any) -> bool:
    items = cast("list[Any] | tuple[()]", value) if isinstance(value, (list, tuple)) else [None]
    return all(isinstance(item, str) for item in items)


def _listed(written: Mapping[str, Any], made: Mapping[str, Any]) -> list[JsonObject]:
    places = {"settings": written, "administrators": made}
    return [
        {"name": name, "from": place, **item.model_dump(mode="json", exclude_defaults=True)}
        for place, items in places.items()
        for name, item in items.items()
    ]


def _number(given: QueryParams, name: str) -> float | None:
    text = given.get(name)
    if text is None:
        return None
    try:
        found = float(text)
    except ValueError:
        raise InvalidArgumentsError(f"{name} must be a number; times are seconds since 1970") from None
    if not abs(found) < 2**53:
        raise InvalidArgumentsError(f"{name} is too large")
    return found
