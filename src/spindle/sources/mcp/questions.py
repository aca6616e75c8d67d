"""Questions of servers: asked of whoever is there, or made into a pause, and answered when the call is made
again. Nothing is kept open meanwhile.

A server of 2026-07-28 asks with a result, and has all that it needs in its state. One of the handshake era
asks in the middle of a call: the call is ended, and when it is made again the server asks again, and is
answered then. What it did before it asked is done twice, which the person is told.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from spindle.domain.json_schema import canonical, is_array, is_object
from spindle.errors import ClientError, InputRequired, PermissionDeniedError, ServerError
from spindle.mcp_protocol.errors import McpError
from spindle.remedies import Remedy

if TYPE_CHECKING:
    from spindle.domain.call import Call, Reply
    from spindle.domain.json_schema import JsonObject

MAX_QUESTIONS = 25
"""The questions that one call may ask, however it is answered."""
NOT_PART = frozenset({"_meta", "elicitationId", "task"})
"""The fields of a question that differ each time it is asked."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The questions of a server of 2026-07-28, without whose answers it does not go on."""

    requests: dict[str, JsonObject]
    """By a key of the server's, the method and params of each request."""
    state: str | None
    whole: JsonObject
    """The result in which it came."""


def comes_back_for(call: Call, asked: Asked) -> bool:
    """True if the client of a call is told what the server wants, and makes the call again with it. Not if a
    model of ours answers a part of it, with which we make the call again ourselves."""
    peer = call.peer
    if peer is None or not peer.comes_back:
        return False
    methods = {request["method"] for request in asked.requests.values()}
    return not (peer.has_model and "sampling/createMessage" in methods)


async def answers_to(call: Call, source: str, asked: Asked) -> JsonObject:
    """The answers that go with the repeated call, by whoever is there to give them. Raises the pause that
    waits for those that are missing."""
    responses: JsonObject = {}
    missing: dict[str, JsonObject] = {}
    for key, request in asked.requests.items():
        method: str = request["method"]
        params: JsonObject = request.get("params") or {}
        is_person = method == "elicitation/create"
        if is_person:
            check_question(source, params)
        if call.peer is not None and call.peer.can_answer(method):
            try:
                responses[key] = await call.peer.ask(method, params)
                continue
            except InputRequired:
                pass  # nobody was there to answer it
            except McpError as error:
                raise ClientError(f"the client did not answer {method}: {error.message}") from error
        if not is_person:
            raise not_offered(call.tool, method)
        missing[key] = params
    if missing:
        state = {"request_state": asked.state, "responses": responses}
        raise to_pause(call, source, missing, {**state, "earlier": GivenAnswers(call).earlier})
    return with_state(responses, asked.state)


def with_state(responses: JsonObject, state: str | None) -> JsonObject:
    """The parameters of a repeated call."""
    given = {"inputResponses": responses or None, "requestState": state}
    return {key: value for key, value in given.items() if value is not None}


def to_pause(call: Call, source: str, asked: dict[str, JsonObject], state: JsonObject) -> InputRequired:
    """All that the server wants to know, as one question: a form's own schema, or a property for each.
    `details` has each `question` apart."""
    forms = {key: params["requestedSchema"] for key, params in asked.items() if params.get("mode") != "url"}
    links = [params["url"] for params in asked.values() if params.get("mode") == "url"]
    questions: list[JsonObject] = []
    for key, params in asked.items():
        wanted = {"url": params["url"]} if params.get("mode") == "url" else {"schema": forms[key]}
        questions.append({"name": key, "message": params["message"], **wanted})
    details: JsonObject = {"schema": _schema(forms, alone=len(asked) == 1), "questions": questions}
    if links:
        details |= {"url": links[0], "urls": links}
    message = "\n".join(str(params["message"]) for params in asked.values() if params["message"])
    modes = {key: params.get("mode", "form") for key, params in asked.items()}
    return InputRequired(
        message or f"{call.tool} asks for input",
        source=source,
        tool=call.tool,
        details=details,
        state={"modes": modes, **state},
    )


def _schema(forms: dict[str, JsonObject], *, alone: bool) -> JsonObject:
    if not forms:
        return {}  # a link alone: that somebody says so is enough
    if alone:
        return next(iter(forms.values()))
    return {"type": "object", "properties": forms, "required": list(forms)}


def responses_of(reply: Reply) -> JsonObject:
    """A person's answer to a pause, for each question that was asked."""
    modes: dict[str, str] = reply.state["modes"]
    responses: JsonObject = {}
    for key, mode in modes.items():
        if reply.refused is not None:
            responses[key] = {"action": "decline"}
        elif mode == "form":
            content = reply.answer if len(modes) == 1 else reply.answer[key]
            responses[key] = {"action": "accept", "content": content}
        else:
            responses[key] = {"action": "accept"}
    return responses


def repeated_with(call: Call) -> JsonObject:
    """The answers and the state that go with a repeated call of a server of 2026-07-28."""
    if call.answers is not None:
        return call.answers
    if call.reply is None:
        return {}
    state = call.reply.state
    return with_state({**state.get("responses", {}), **responses_of(call.reply)}, state["request_state"])


# --- servers of the handshake era


class GivenAnswers:
    """The answers that people gave to the questions of a call which is made again."""

    def __init__(self, call: Call) -> None:
        state: JsonObject = call.reply.state or {} if call.reply is not None else {}
        self.earlier: list[JsonObject] = list(state.get("earlier", []))
        """Each question that was answered, with its answer."""
        if call.reply is not None and "question" in state:
            (response,) = responses_of(call.reply).values()
            self.earlier.append({"question": state["question"], "response": response})
        self._left = list(self.earlier)

    def take(self, params: JsonObject) -> JsonObject | None:
        """The answer to this very question, each time that it was asked before."""
        mark = _mark(params)
        for item in self._left:
            if item["question"] == mark:
                self._left.remove(item)
                return item["response"]
        return None

    def pause(self, call: Call, source: str, params: JsonObject) -> InputRequired:
        """The pause for a question that nobody has answered yet."""
        pause = to_pause(call, source, {"answer": params}, {})
        pause.state |= {"question": _mark(params), "earlier": self.earlier}
        pause.details["repeats"] = True
        return pause


def _mark(params: JsonObject) -> str:
    kept = {key: value for key, value in params.items() if key not in NOT_PART}
    return hashlib.sha256(canonical(kept)).hexdigest()


def links_of(source: str, data: Any) -> dict[str, JsonObject]:
    """The pages that a server of 2025-11-25 wants visited before it takes a call."""
    found = data.get("elicitations") if is_object(data) else None
    links = [item for item in found if is_object(item)] if is_array(found) else []
    if not links:
        raise ServerError(f"{source!r} wants a page to be visited, and does not say which")
    asked: dict[str, JsonObject] = {}
    for number, item in enumerate(links[:MAX_QUESTIONS], 1):
        params = {**item, "mode": "url", "message": str(item.get("message", ""))}
        check_question(source, params)
        asked[f"page-{number}"] = params
    return asked


def refuse_if_declined(call: Call) -> None:
    """Raises if the person declined to visit the page without which the server does nothing."""
    reply = call.reply
    if reply is not None and reply.refused is not None and "question" not in (reply.state or {}):
        raise _declined(call, reply.refused)


def require_visited(call: Call, given: JsonObject) -> None:
    """Raises unless all pages were visited without which the server does nothing."""
    if any(answer.get("action") != "accept" for answer in given.get("inputResponses", {}).values()):
        raise _declined(call, "")


def _declined(call: Call, why: str) -> PermissionDeniedError:
    reason = f": {why}" if why else ""
    return PermissionDeniedError(f"the page that {call.tool} wants visited was declined{reason}", sent=False)


# --- both


def check_question(source: str, params: JsonObject) -> None:
    """Raises ServerError for a question that the protocol does not allow, or that is too large to show."""
    from spindle.calls.forms import MAX_TEXT, fields_of

    message = params.get("message")
    if not isinstance(message, str) or len(message) > MAX_TEXT:
        raise _bad(source, f"its message is no text of at most {MAX_TEXT} characters")
    if params.get("mode") == "url":
        problem = link_problem(params.get("url"))
        if problem is not None:
            raise _bad(source, problem)
        return
    try:
        fields_of(params.get("requestedSchema"))
    except ValueError as error:
        raise _bad(source, str(error)) from None


def link_problem(url: Any) -> str | None:
    """Why a person should not be sent to an address, or None."""
    from spindle.calls.forms import MAX_TEXT

    if not isinstance(url, str) or len(url) > MAX_TEXT or not url.isascii() or not url.isprintable():
        return "its address is not one"
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return "its address is not one"
    if parts.scheme not in ("http", "https") or not host or " " in url:
        return "its address is not one of a web page"
    if parts.username or parts.password:
        return "its address has a name or a password before the host, which hides the host"
    return None


def _bad(source: str, why: str) -> ServerError:
    return ServerError(
        f"{source!r} asks in a way that cannot be answered: {why}", hint="tell the author of the server"
    )


def too_many(source: str, tool: str) -> ServerError:
    """The error for a server that does not stop asking."""
    return ServerError(
        f"{source!r} asked more than {MAX_QUESTIONS} questions during one call of {tool}",
        hint="tell the author of the server",
    )


def not_offered(tool: str, method: str) -> ClientError:
    """The error for a request that nobody here answers."""
    if method.startswith("sampling/"):
        message = f"{tool} asks for a language model, and may not use one"
        return ClientError(message, remedy=way_out(method))
    return ClientError(
        f"{tool} asks for {method!r} while it runs, which Spindle does not offer",
        hint="tell the author of the server",
    )


def way_out(method: str) -> Remedy | None:
    """Returns the remedy by which somebody answers this request of a server, if there is one."""
    kind = method.partition("/")[0]
    return Remedy(_WAYS_OUT[kind]) if kind in _WAYS_OUT else None


_WAYS_OUT = {"elicitation": "answer", "sampling": "name_model"}
"""By the capability that answers it, the remedy."""


def only_pauses(call: Call, method: str) -> bool:
    """True if nobody is there whom this could be asked, so that the call pauses for it."""
    if method != "elicitation/create" or not call.can_pause:
        return False
    return call.peer is None or not (call.peer.comes_back or call.peer.can_answer(method))
