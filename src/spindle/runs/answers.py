"""The answers that people give to pauses, checked before a token is used up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spindle.domain.json_schema import JsonObject, is_object, to_json
from spindle.errors import InvalidArgumentsError, did_you_mean
from spindle.schemas.compiled import CompiledSchema

if TYPE_CHECKING:
    from spindle.calls.caller import Caller
    from spindle.domain.run import Pause

MAX_ANSWER = 1024 * 1024
MAX_MISTAKES = 20
_APPROVAL_FIELDS = ("approved", "arguments", "reason")
_DOUBT_FIELDS = ("approved", "done", "reason", "result")


async def checked_answer(
    pause: Pause, details: JsonObject, answer: Any, refused: str | None, caller: Caller
) -> JsonObject | None:
    """Returns the answer as it is kept: `{"answer": …}` or `{"refused": reason}`; None for a consent,
    which needs none. Raises InvalidArgumentsError, and the pause can still be answered."""
    if refused is not None:
        return {"refused": str(refused)[:4000]}
    _refuse_large(answer)
    match pause.kind:
        case "approval":
            return await _checked_approval(answer, details, caller)
        case "input":
            from spindle.calls.forms import answer_problems

            problems = answer_problems(details, answer)
            if problems:
                raise _wrong("the answer does not fit", problems)
            return {"answer": answer}
        case "wait":
            return {"answer": _checked_arrival(answer, details)}
        case _:
            if answer is not None:
                raise _wrong("a consent takes no answer: it is given at the provider", [])
            return None


def _checked_arrival(answer: Any, details: JsonObject) -> Any:
    """Returns what came for a run that waits for it."""
    if answer is None:
        raise _wrong("it waits, and nothing came", [], "resume its run to see if the wait is over")
    if "schema" not in details:
        raise _wrong("it waits for a time, not for an answer", [], "it goes on by itself, or can be refused")
    try:
        mistakes = list(CompiledSchema(details["schema"]).mistakes(answer))
    except ValueError as error:
        raise _wrong(f"what came cannot be checked: {error}", []) from None
    if mistakes:
        found = [{"path": ".".join(map(str, steps)) or "body", "problem": said} for steps, said in mistakes]
        raise _wrong("what came does not fit", found[:MAX_MISTAKES])
    return answer


def is_refusal(answer: Any, refused: str | None) -> bool:
    """True if an answer only refuses, which whoever was asked may always do."""
    return refused is not None or answer is False or (is_object(answer) and answer.get("approved") is False)


async def _checked_approval(answer: Any, details: JsonObject, caller: Caller) -> JsonObject:
    if isinstance(answer, bool):
        answer = {"approved": answer}
    in_doubt = "in_doubt" in details
    if not is_object(answer) or not isinstance(answer.get("done" if "done" in answer else "approved"), bool):
        further = ', or {"done": true} if it was done' if in_doubt else ""
        raise _wrong(f'an approval is answered by {{"approved": true}} or {{"approved": false}}{further}', [])
    known = _DOUBT_FIELDS if in_doubt else _APPROVAL_FIELDS
    for name in answer:
        if name not in known:
            raise _wrong(f"this approval has no {name!r}", [], did_you_mean(name, known))
    if in_doubt and ("done" in answer or "result" in answer):
        return await _checked_confirmation(answer, details, caller)
    if not answer["approved"]:
        return {"refused": str(answer.get("reason") or "")[:4000]}
    edited = answer.get("arguments")
    if edited is None:
        return {"answer": {"approved": True}}
    if not is_object(edited) or "arguments" not in details:
        raise _wrong("`arguments` must be an object, where there are arguments to change", [])
    await caller.check(details["tool"], edited)
    return {"answer": {"approved": True, "arguments": edited}}


async def _checked_confirmation(answer: JsonObject, details: JsonObject, caller: Caller) -> JsonObject:
    """Returns a person's word that a call in doubt was done, with what it returned if they know."""
    if answer.get("done") is not True or "approved" in answer or "reason" in answer:
        raise _wrong('what was done is confirmed by {"done": true}, with its "result" if it is known', [])
    if "result" in answer and "tool" in details:
        await caller.check_result(details["tool"], answer["result"])
    return {"answer": answer}


def _refuse_large(answer: Any) -> None:
    try:
        size = len(to_json(answer))
    except (TypeError, ValueError):
        raise _wrong("the answer is not JSON", []) from None
    if size > MAX_ANSWER:
        raise _wrong(f"the answer is over {MAX_ANSWER} bytes", [])


def _wrong(what: str, problems: list[dict[str, str]], hint: str | None = None) -> InvalidArgumentsError:
    lines = "; ".join(f"{item['path']}: {item['problem']}" for item in problems)
    return InvalidArgumentsError(
        f"{what}: {lines}" if lines else what,
        hint=hint or "the pause can still be answered",
        details=problems or None,
        sent=False,
    )
