"""The console: the pages at `/console`, for those who are signed in."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, quote, urlsplit

from starlette.requests import ClientDisconnect, Request
from starlette.routing import Match, Route

from spindle.console.consents import ConsoleConsents
from spindle.console.examination import Examination
from spindle.console.live import LiveStream, LiveUpdates
from spindle.console.rendering import Pages
from spindle.console.screen import Look, Screen
from spindle.console.screens import PLACES, SCREENS
from spindle.console.shared_parts import SharedParts
from spindle.console.static_files import static_file
from spindle.console.warming import Warming
from spindle.errors import NotFoundError, PermissionDeniedError, SpindleError
from spindle.listening.headers import headers_of
from spindle.listening.response import Response
from spindle.serving.access import ANYBODY
from spindle.serving.answering import may_answer, waiting_for
from spindle.serving.browser_sessions import SESSION
from spindle.serving.operating import CALLBACK, CONNECT, CONSOLE, is_console
from spindle.serving.problems import of_error
from spindle.version import __version__

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from spindle.app import Spindle
    from spindle.console.examination import Examine
    from spindle.domain.identity import Principal
    from spindle.serving.access import ServingAccess
    from spindle.serving.browser_sessions import BrowserSession, BrowserSessions

logger = logging.getLogger("spindle")

MAX_FORM: Final = 16 * 1024
ENTER: Final = f"{CONSOLE}/enter"


class Console:
    """Answers all that is below `/console`. It stands behind the guard of its server, which says whose each
    request is; without a session there is nothing here but the way in."""

    def __init__(
        self,
        app: Spindle,
        access: ServingAccess,
        sessions: BrowserSessions,
        api: ASGIApp | None = None,
        examine: Examine | None = None,
    ) -> None:
        """`api` answers the other paths for browsers with a session, where the server itself does not.
        `examine` looks for all that may be wrong."""
        self._examination = Examination(examine) if examine is not None else None
        self._api = api
        self._app = app
        self._access = access
        self._sessions = sessions
        self._pages = Pages()
        self.warming = Warming(self._pages, ("frame.html", SCREENS[0].template))
        self.live = LiveUpdates(app, lambda: access.draining)
        self._parts = SharedParts(self.live)
        consents = ConsoleConsents(app, access, self._pages)
        self._open = [
            Route(f"{CONSOLE}/static/{{path:path}}", static_file, methods=["GET"]),
            Route(ENTER, self._show_enter, methods=["GET"]),
            Route(ENTER, self._enter, methods=["POST"]),
            Route(CALLBACK, consents.come_back, methods=["GET"]),
            Route(CONNECT, consents.connect.show, methods=["GET"]),
            Route(CONNECT, consents.connect.take, methods=["POST"]),
        ]
        self._own = [
            Route(f"{CONSOLE}/leave", self._leave, methods=["POST"]),
            Route(f"{CONSOLE}/live", self._follow, methods=["GET"]),
        ]
        self._screens = [
            (Route(f"{CONSOLE}{screen.path}", _unused, methods=["GET"]), screen) for screen in SCREENS
        ]

    @property
    def has_api(self) -> bool:
        """True if it brings the REST API with it."""
        return self._api is not None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._api is not None and not is_console(scope["path"]):
            await self._api(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except ClientDisconnect:
            return
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> ASGIApp:
        scope = request.scope
        if not self._access.config.console:
            return Response("there is no console here\n", 404, media_type="text/plain")
        self.warming.begin()
        for route in self._open:
            if _fits(route, scope):
                return await route.endpoint(request)
        session: BrowserSession | None = scope.get(SESSION)
        principal = self._access.principal(scope)
        if session is None or principal is ANYBODY:
            return _to_enter(request)
        try:
            for route in self._own:
                if _fits(route, scope):
                    return await route.endpoint(request)
            for route, screen in self._screens:
                if _fits(route, scope):
                    with self.warming.paused():
                        return await self._show(request, screen, principal, session)
            raise NotFoundError("there is no such page", hint="the entries at the side lead to all pages")
        except SpindleError as error:
            return await self._problem(request, principal, session, error)
        except Exception:
            logger.exception("a page of the console failed: %s", request.url.path)
            error = SpindleError("this page could not be made", hint="the log of the server says why")
            return await self._problem(request, principal, session, error, status=500)

    # --- pages

    async def _show(
        self, request: Request, screen: Screen, principal: Principal, session: BrowserSession
    ) -> Response:
        if screen.admin and not principal.admin:
            raise PermissionDeniedError(
                "only an administrator sees this page",
                hint="sign out and in again with a token of an administrator, or ask one of them",
            )
        look = Look(
            self._app, self._access, principal, time.time(), dict(request.query_params), request.path_params,
            session.is_owner, self._examination, str(request.base_url).rstrip("/"),
        )  # fmt: skip
        block = _block(request)

        async def made() -> str:
            marks = await self.live.marks() if block is None else ""
            view = await screen.view(look)
            frame = await self._frame(request, principal, session, screen.place)
            return self._pages.rendered(screen.template, block, view=view, look=look, live=marks, **frame)

        if not self._pages.has_block(screen.template, block):
            return self._pages.answer(await made())
        who = (principal, session.is_owner)
        key = (who, request.url.path, tuple(sorted(look.query.items())), block)
        return self._pages.answer(await self._parts.get(key, made))

    async def _frame(
        self, request: Request, principal: Principal, session: BrowserSession, place: str
    ) -> dict[str, Any]:
        """Returns all that stands around a page."""
        places = [place for place in PLACES if principal.admin or place.key not in _FOR_ADMINS]
        person = None if session.is_owner else principal
        waiting = await waiting_for(self._app, person)
        return {
            "places": places,
            "place": place,
            "here": request.url.path,
            "query": dict(request.query_params),
            "waiting": sum(may_answer(self._app, pause, person) for pause in waiting),
            "workspace": self._app.settings.root.name or str(self._app.settings.root),
            "principal": principal,
            "csrf": session.csrf,
            "version": __version__,
        }

    async def _problem(
        self,
        request: Request,
        principal: Principal,
        session: BrowserSession,
        error: SpindleError,
        status: int | None = None,
    ) -> Response:
        frame = await self._frame(request, principal, session, "")
        status = status if status is not None else int(of_error(error)["status"])
        block = "problem" if "hx-request" in request.headers else None
        return self._pages.respond("problem.html", block, status, view=error, live="", **frame)

    async def _follow(self, request: Request) -> Response:
        principal, headers = self._access.principal(request.scope), headers_of(request.scope)

        async def is_signed_in() -> bool:
            if await self._sessions.of(headers) is None:
                return False
            return await self._access.now_admits(request.scope, principal) is not None

        return LiveStream(self.live, is_signed_in, request.query_params.get("since", ""))

    # --- the way in and out

    async def _show_enter(self, request: Request) -> Response:
        if request.scope.get(SESSION) is not None and self._access.principal(request.scope) is not ANYBODY:
            return _see(_next(request.query_params.get("next", "")))
        return self._enter_page(request.query_params.get("next", ""))

    def _enter_page(self, following: str, said: str = "", status: int = 200) -> Response:
        token = self._access.wants_token
        return self._pages.respond(
            "enter.html", None, status, said=said, token=token, following=_next(following)
        )

    async def _enter(self, request: Request) -> Response:
        if not _is_own(request):
            return self._enter_page("", "Sign in on this page itself.", 403)
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > MAX_FORM:
                return self._enter_page("", "That was too long for a link or a token.", 413)
        sent = {key: values[0] for key, values in parse_qs(body.decode("latin-1")).items()}
        following = sent.get("next", "")
        if code := sent.get("code", ""):
            session = await self._sessions.follow(code)
            if session is None:
                said = "This link was used before, or is older than ten minutes."
                return self._enter_page(following, said, 403)
        else:
            token = sent.get("token", "").strip()
            if not token or not await self._access.knows(token):
                return self._enter_page(following, "This token is not known here.", 403)
            session = await self._sessions.begin(token)
        return _see(_next(following), self._sessions.set_cookie(session))

    async def _leave(self, request: Request) -> Response:
        session: BrowserSession = request.scope[SESSION]
        if not session.allows("POST", headers_of(request.scope)):
            raise PermissionDeniedError("this does not come from a page of the console", hint="reload it")
        await self._sessions.end(session)
        headers = {"Set-Cookie": self._sessions.set_cookie(None), "HX-Redirect": ENTER}
        return Response(b"", 204, headers)


_FOR_ADMINS: Final = frozenset(screen.place for screen in SCREENS) - frozenset(
    screen.place for screen in SCREENS if not screen.admin
)
"""The entries of the navigation behind which there is nothing for anybody else."""


def _fits(route: Route, scope: Scope) -> bool:
    match, found = route.matches({**scope, "root_path": ""})
    if match is not Match.FULL:
        return False
    scope["path_params"] = found["path_params"]
    return True


async def _unused(_: Request) -> Response:
    raise AssertionError("screens are shown by their view")


def _block(request: Request) -> str | None:
    """The id of the element that htmx asks for. It names it as `section#list`."""
    if "hx-request" not in request.headers:
        return None
    return request.headers.get("hx-target", "").partition("#")[2].replace("-", "_") or None


def _to_enter(request: Request) -> Response:
    if request.method != "GET" or "hx-request" in request.headers or request.url.path.endswith("/live"):
        return Response("sign in\n", 401, {"HX-Redirect": ENTER}, "text/plain")
    here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return _see(ENTER if here == CONSOLE else f"{ENTER}?next={quote(here, safe='')}")


def _see(address: str, cookie: str | None = None) -> Response:
    headers = {"Location": address, "Cache-Control": "no-store"}
    return Response(b"", 303, headers | ({"Set-Cookie": cookie} if cookie is not None else {}))


def _next(address: str) -> str:
    """The page to go on with: one of the console's own, whatever a link says."""
    is_own = address == CONSOLE or address.startswith((f"{CONSOLE}/", f"{CONSOLE}?"))
    is_plain = address.isascii() and address.isprintable() and "\\" not in address
    return address if is_own and is_plain and len(address) < 2000 else CONSOLE


def _is_own(request: Request) -> bool:
    """True if a form comes from a page of this server. Every browser says where a form comes from."""
    origin = request.headers.get("origin", "")
    return urlsplit(origin).netloc == request.headers.get("host", "") != ""
