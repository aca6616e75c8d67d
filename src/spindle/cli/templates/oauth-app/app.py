"""A web application whose users connect their own accounts: `uvicorn app:web --port 8000`."""

from __future__ import annotations

import html
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

from fastapi import Depends, FastAPI, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

import spindle
from spindle import AuthorizationRequired, CallOptions, Principal, SpindleError

# A real application has accounts and a session store; here a name is enough to be somebody.
sessions: dict[str, Principal] = {}


@asynccontextmanager
async def lifespan(web: FastAPI) -> AsyncIterator[None]:
    """Keeps the workspace open while the application runs."""
    async with spindle.open(Path(__file__).parent) as app:
        web.state.spindle = app
        yield


def user_of(request: Request) -> Principal | None:
    """The user who is logged in, if anybody is."""
    return sessions.get(request.cookies.get("session", ""))


User = Annotated[Principal | None, Depends(user_of)]

web = FastAPI(lifespan=lifespan)
# Only the user who was asked can complete a consent: `user_of` says who comes back.
web.mount("/oauth", spindle.callback_app(lambda: web.state.spindle, principal_of=user_of))


@web.get("/")
async def home(user: User) -> HTMLResponse:
    """The page with the login, the Connect link, or the tools."""
    if user is None:
        return page(
            '<form method="post" action="/login"><input name="name" required> <button>Log in</button></form>'
        )
    app = web.state.spindle
    try:
        if await app.auth.needs_login("notes", user):
            asked = await app.auth.begin("notes", user)
            return page(
                f'<p><a href="{html.escape(asked.url)}">Connect {html.escape(asked.provider)}</a></p>'
            )
        tools = await app.tools(source="notes")
        if not tools:
            await app.sync("notes", principal=user)
            tools = await app.tools(source="notes")
    except SpindleError as error:
        return page(f"<p>{html.escape(error.message)}</p>")
    items = "".join(button(tool.name, tool.headline) for tool in tools)
    return page(f"<p>You are connected, {html.escape(user.id)}.</p><ul>{items}</ul>")


@web.post("/login")
async def login(name: Annotated[str, Form()]) -> Response:
    """Begins a session."""
    session = secrets.token_urlsafe()
    sessions[session] = Principal(name)
    response = RedirectResponse("/", 303)
    response.set_cookie("session", session, httponly=True, samesite="lax")
    return response


@web.post("/call/{tool}")
async def call(tool: str, user: User) -> Response:
    """Calls a tool for the user who is logged in."""
    if user is None:
        return RedirectResponse("/", 303)
    try:
        result = await web.state.spindle.call(tool, {}, CallOptions(principal=user))
    except AuthorizationRequired as asked:
        return RedirectResponse(asked.url, 303)  # consent is missing, or was taken back
    except SpindleError as error:
        return page(f"<p>{html.escape(error.message)}</p>")
    return page(f"<pre>{html.escape(result.text)}</pre><p><a href='/'>Back</a></p>")


def button(tool: str, what: str) -> str:
    """An entry of the list of tools."""
    name = html.escape(tool)
    form = f'<form method="post" action="/call/{name}"><button>{name}</button></form>'
    return f"<li>{form} {html.escape(what)}</li>"


def page(body: str) -> HTMLResponse:
    """A page with the title of the application."""
    return HTMLResponse(f"<!doctype html><title>Notes</title><h1>Notes</h1>{body}")
