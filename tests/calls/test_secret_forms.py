"""Secrets are masked also where they were encoded."""

from __future__ import annotations

import base64
import json
import math
from urllib.parse import quote, quote_plus, urlencode

from hypothesis import given
from hypothesis import strategies as st

from spindle.calls.record import MASK, clean, clean_json, with_secrets

texts = st.text(st.characters(codec="utf-8", exclude_characters="•"), max_size=30)
secrets = st.text(st.characters(codec="utf-8", exclude_characters="•"), min_size=8, max_size=40)


@given(secrets, texts, texts)
def test_no_encoding_of_a_secret_is_left(secret: str, before: str, after: str) -> None:
    whole = before + secret + after
    for encoded in (
        whole,
        json.dumps(whole),
        json.dumps(whole, ensure_ascii=False),
        quote(whole),
        quote(whole, safe=""),
        quote_plus(whole),
        urlencode({"q": whole}),
        whole.encode().hex(),
    ):
        cleaned = clean(encoded, {secret})
        assert MASK in cleaned
        for form in (secret, json.dumps(secret)[1:-1], quote(secret, safe=""), secret.encode().hex()):
            if form not in before + after:
                assert form not in cleaned.replace(before, "").replace(after, "") or len(form) < 4


@given(secrets, st.binary(max_size=12), st.binary(max_size=12))
def test_the_bytes_of_a_secret_cannot_be_had_from_base64(secret: str, before: bytes, after: bytes) -> None:
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        text = encode(before + secret.encode() + after).decode()
        assert MASK in clean(text, {secret})
        kept = clean(text, {secret}).replace(MASK, "").rstrip("=")
        # What is left are characters of the neighbours: at most as many as those need.
        assert len(kept) <= math.ceil(len(before) * 8 / 6) + math.ceil(len(after) * 8 / 6)


def test_a_long_secret_goes_before_its_own_beginning() -> None:
    assert clean("abcdefgh abcdefghijkl", {"abcdefgh", "abcdefghijkl"}) == f"{MASK} {MASK}"


def test_short_values_are_left_alone_and_numbers_are_secrets_too() -> None:
    assert clean("yes, no", {"no"}) == "yes, no"
    assert clean_json({"pin": 918273, "n": 5, "918273": [True]}, {"918273"}) == {
        "pin": MASK,
        "n": 5,
        MASK: [True],
    }


def test_a_person_who_changes_arguments_leaves_masked_ones_as_they_were() -> None:
    given_ = {"token": "s3cret-value", "to": ["a", "s3cret-value"], "text": "hi"}
    shown = clean_json(given_, {"s3cret-value"})
    assert with_secrets({**shown, "text": "ho"}, shown, given_) == {**given_, "text": "ho"}
    assert with_secrets({"to": ["b", MASK], "new": 1}, shown, given_) == {
        "to": ["b", "s3cret-value"],
        "new": 1,
    }
