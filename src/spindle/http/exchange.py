"""One request and its answer, with the redirects in between: each rule of a redirect is written once."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass

from spindle.http.addresses import host_of, is_below, join_url, origin_of, plain_url, same_origin
from spindle.http.answer import HttpAnswer
from spindle.http.client import HttpClient
from spindle.http.failures import RedirectError
from spindle.http.request import Prepared

MAX_REDIRECTS = 5
REDIRECTS = (301, 302, 303, 307, 308)
# All that follows a redirect to somebody else.
_HARMLESS = frozenset({"accept", "accept-encoding", "accept-language", "content-type", "user-agent"})


@dataclass(frozen=True, slots=True)
class RedirectPolicy:
    """The limits for following redirects of a request. Credentials never go to another origin."""

    most: int = MAX_REDIRECTS
    """With 0 a redirect is an answer like any other."""
    same_origin: bool = False
    """A redirect to another origin is refused."""
    below: str | None = None
    """A redirect that leads out of this URL is refused."""
    may_lead_inside: bool = False
    """A server outside may lead to this machine and its networks."""
    keeps_method: bool = False
    """A redirect after which something else would be asked for is refused."""
    check: Callable[[str], Awaitable[None]] | None = None
    """Called with each address before it is contacted; raises to refuse it."""


@contextlib.asynccontextmanager
async def exchange(
    client: HttpClient,
    request: Prepared,
    policy: RedirectPolicy = RedirectPolicy(),  # noqa: B008 - frozen
    *,
    public_only: bool = False,
    timeout: float | None = None,
) -> AsyncGenerator[HttpAnswer]:
    """See followed; the answer is released at the end."""
    answer = await followed(client, request, policy, public_only=public_only, timeout=timeout)
    try:
        yield answer
    finally:
        answer.release()


async def followed(
    client: HttpClient,
    request: Prepared,
    policy: RedirectPolicy,
    *,
    public_only: bool,
    timeout: float | None = None,
) -> HttpAnswer:
    """Sends a request, follows redirects, and returns the answer while it still comes in, for whoever
    releases it.

    `public_only`: somebody else chose the address, so it may not be one of ours. Raises an HttpFailure.
    """
    count, sent_from_outside = 0, False
    while True:
        if policy.check is not None:
            await policy.check(request.url)
        answer = await client.send(request, public_only=public_only, timeout=timeout)
        answer.sent_from_outside = sent_from_outside
        if answer.status not in REDIRECTS:
            return answer
        try:
            following = redirected(answer, policy)
            if following is None:
                return answer
            if count == policy.most:
                raise RedirectError(f"redirected more than {policy.most} times", answer.status)
            if not same_origin(following.url, request.url) and not await answer.is_from_inside():
                # A server on the outside cannot lead to what only this machine reaches.
                sent_from_outside = True
                public_only = public_only or not policy.may_lead_inside
        except BaseException:
            answer.release()
            raise
        answer.release()
        request = following
        count += 1


def redirected(answer: HttpAnswer, policy: RedirectPolicy) -> Prepared | None:
    """Returns the request that a redirect leads to; None where it is an answer like any other. Raises
    RedirectError for one that the policy refuses."""
    url = _redirect_url(answer, policy) if policy.most and answer.status in REDIRECTS else None
    if url is None:
        return None
    request = answer.request
    method = _redirect_method(request.method, answer.status)
    if policy.keeps_method and method != request.method:
        raise RedirectError(f"redirects to {plain_url(url)}, which is not followed", answer.status)
    keeps_body = answer.status != 303 and method == request.method
    headers = _redirect_headers(request, url, keeps_body=keeps_body)
    return Prepared(method, url, headers, _redirect_body(request, keeps_body=keeps_body))


def _redirect_url(answer: HttpAnswer, policy: RedirectPolicy) -> str | None:
    location, status = answer.headers.get("location"), answer.status
    if not location:
        return None
    url = join_url(answer.request.url, location)
    if url is None:
        raise RedirectError("redirects to what is not a URL", status)
    scheme = url.partition(":")[0]
    if scheme not in ("http", "https") or not host_of(url):
        raise RedirectError(f"redirects to {scheme}:, which is not followed", status)
    if policy.same_origin and not _stays(url, answer.request.url):
        raise RedirectError(f"redirects to another origin, {plain_url(url)}, which is not followed", status)
    if policy.below is not None and not is_below(url, policy.below):
        hint = "make that a source of its own, if it is meant"
        raise RedirectError(f"redirects to {plain_url(url)}, out of its base URL", status, hint)
    return url


def _redirect_method(method: str, status: int) -> str:
    """A 303 asks for another thing, and browsers have made 301 and 302 mean the same for POST."""
    if status == 303 and method != "HEAD":
        return "GET"
    return "GET" if status in (301, 302) and method == "POST" else method


def _redirect_headers(request: Prepared, url: str, *, keeps_body: bool) -> dict[str, str]:
    headers = request.headers
    if not _stays(url, request.url):
        headers = {name: value for name, value in headers.items() if name.lower() in _HARMLESS}
    if keeps_body:
        return headers
    return {name: value for name, value in headers.items() if name.lower() != "content-type"}


def _stays(url: str, before: str) -> bool:
    """True for the same origin, and for one that now speaks in secret."""
    if same_origin(url, before):
        return True
    one, other = origin_of(before), origin_of(url)
    return one is not None and other == ("https", one[1], 443) and one == ("http", one[1], 80)


def _redirect_body(request: Prepared, *, keeps_body: bool) -> bytes | None:
    return request.content if keeps_body else None
