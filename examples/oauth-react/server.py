"""A web application whose users connect their own accounts.

A user asks; the tool needs their consent; the run pauses and the page shows a Connect button. When the
user comes back from the provider, the run goes on by itself, and the page shows the result.

Run it with: uvicorn server:web --port 8000 --no-access-log
"""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from fastapi import Cookie, Depends, FastAPI, HTTPException, Request, Response
from fastapi.staticfiles import StaticFiles

import spindle
from spindle import CallOptions, Finished, Paused, Principal

HERE = Path(__file__).parent
TOOL = os.environ.get("EXAMPLE_TOOL", "notes.whoami")

# A real application has accounts and a session store; here a name is enough to be somebody.
sessions: dict[str, Principal] = {}


@asynccontextmanager
async def lifespan(web: FastAPI) -> AsyncIterator[None]:
    async with spindle.open(os.environ.get("EXAMPLE_WORKSPACE", HERE)) as app:
        web.state.spindle = app
        yield


def user_of(request: Request) -> Principal | None:
    return sessions.get(request.cookies.get("session", ""))


def current_user(session: Annotated[str, Cookie()] = "") -> Principal:
    if session not in sessions:
        raise HTTPException(401, "log in first")
    return sessions[session]


User = Annotated[Principal, Depends(current_user)]

web = FastAPI(lifespan=lifespan)
# Only the user who asked can complete a consent: `user_of` says who comes back.
web.mount("/oauth", spindle.callback_app(lambda: web.state.spindle, principal_of=user_of))


@web.post("/api/login/{name}")
async def login(name: str, response: Response) -> None:
    session = secrets.token_urlsafe()
    sessions[session] = Principal(name)
    response.set_cookie("session", session, httponly=True, samesite="lax")


@web.post("/api/ask")
async def ask(user: User) -> dict[str, Any]:
    return shown(await web.state.spindle.run(TOOL, {}, CallOptions(principal=user)))


@web.get("/api/runs/{run}")
async def follow(run: str, user: User) -> dict[str, Any]:
    found = await web.state.spindle.store.run(run)
    if found is None or found.principal.id != user.id:
        raise HTTPException(404, "you have no such run")
    if found.status in ("running", "paused"):
        return {"run": run, "status": found.status}
    if found.status != "done":
        return {"run": run, "status": found.status, "error": (found.error or {}).get("message")}
    return shown(await web.state.spindle.resume(run, principal=user))


def shown(outcome: Finished | Paused) -> dict[str, Any]:
    match outcome:
        case Finished(run_id=run, result=result):
            return {"run": run, "status": "done", "text": result.text, "is_error": result.is_error}
        case Paused(run_id=run, pauses=(pause, *_)):
            details = {key: pause.details.get(key) for key in ("provider", "scopes", "url")}
            return {"run": run, "status": "paused", "connect": details}
    return {"status": "running"}


# Built with `npm run build`; last, because it answers every path that is left.
if (HERE / "dist").is_dir():
    web.mount("/", StaticFiles(directory=HERE / "dist", html=True))
