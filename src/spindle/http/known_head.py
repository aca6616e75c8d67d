"""Answers that begin, byte for byte, like an earlier one on their connection, as most of a server's do but
for the length of the body. What such a head says was found out before: it is not parsed again."""

from __future__ import annotations

import re
from typing import NamedTuple

LENGTH = "content-length"
_LENGTH = re.compile(rb"\r\ncontent-length: ?(\d{1,9})(?=\r\n|$)", re.IGNORECASE)
_DIGITS = 9


class AnswerHead(NamedTuple):
    """The head of an answer, in the two parts around the length of its body."""

    before: bytes
    after: bytes
    headers: dict[str, str]

    def body_in(self, data: bytes) -> bytes | None:
        """The body of an answer that begins with this head, and came in one piece; None for others."""
        before, after, _ = self
        if not data.startswith(before):
            return None
        start = len(before)
        end = data.find(b"\r", start, start + _DIGITS + 1)
        if end < 0 or not data.startswith(after, end):
            return None
        length, body = data[start:end], end + len(after)
        return data[body:] if length.isdigit() and int(length) == len(data) - body else None


def known_head(data: bytes, headers: dict[str, str]) -> AnswerHead | None:
    """Remembers the head of an answer that came in one piece, with the headers that were found in it. None
    where more than its length may differ from one to the next, or says where it ends."""
    head, _, body = data.partition(b"\r\n\r\n")
    found = _LENGTH.search(head)
    if found is None or "transfer-encoding" in headers or "set-cookie" in headers:
        return None
    # What the parser took for the length must be what stands there: some heads can be read in two ways.
    if headers.get(LENGTH, "").encode() != found[1] or int(found[1]) != len(body):
        return None
    return AnswerHead(head[: found.start(1)], head[found.end(1) :] + b"\r\n\r\n", dict(headers))
