"""Reading URLs: the parts that are checked are those that are sent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.http.urls import InvalidUrlError, read_url

WRITTEN = {
    "HTTP://A.Test:80/x": "http://a.test/x",
    "https://a.test:443": "https://a.test",
    "http://a.test:8080/a b?c d#e f": "http://a.test:8080/a%20b?c%20d#e%20f",
    "http://a.test/é?é": "http://a.test/%C3%A9?%C3%A9",
    "http://bücher.test/": "http://xn--bcher-kva.test/",
    "http://a.test/a%2Fb%2c,c": "http://a.test/a%2Fb%2c,c",
    "http://a.test/a/./b/../c": "http://a.test/a/c",
    "http://a.test/../../c": "http://a.test/c",
    "http://[::0001]:8080/": "http://[::1]:8080/",
    "http://me:p w@a.test/": "http://me:p%20w@a.test/",
    "http://a.test?": "http://a.test?",
    "/x?y": "/x?y",
    "x/../y": "x/../y",
}


@pytest.mark.parametrize("text", WRITTEN)
def test_a_url_is_written_in_one_way(text: str) -> None:
    assert str(read_url(text)) == WRITTEN[text]
    assert str(read_url(WRITTEN[text])) == WRITTEN[text]


@pytest.mark.parametrize(
    "text",
    ["http://a:b", "http://a:99999", "http://[", "http://[::1", "http://[1.2.3.4]", "http://1.2.3.999/",
     "http://a.test/\n", "http://a\t.test", "http://" + "a" * 70_000, "http://a.test:\uff11/", "http://\udc80/"],
)  # fmt: skip
def test_what_is_not_a_url_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        read_url(text)


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("http://good.test@evil.test/", "evil.test", 80),
        ("http://good.test\\@evil.test/", "evil.test", 80),
        ("https://evil.test:8443#@good.test", "evil.test", 8443),
        ("http://evil.test?@good.test", "evil.test", 80),
        ("http://a@b@evil.test", "evil.test", 80),
    ],
)
def test_the_host_is_the_one_that_is_contacted(url: str, host: str, port: int) -> None:
    found = read_url(url)
    assert (found.host, found.effective_port) == (host, port)


@given(st.text(max_size=40), st.sampled_from(["", "http://", "https://a.test/", "http://a.test?"]))
def test_what_was_read_is_read_again_as_the_same(text: str, start: str) -> None:
    try:
        found = read_url(start + text)
    except ValueError:
        return
    assert str(found).isascii()
    assert not any(char in str(found) for char in " \r\n\t")
    if found.host:
        assert read_url(str(found)) == found


def test_the_words_for_what_is_not_a_url_hold_nothing_of_it() -> None:
    with pytest.raises(InvalidUrlError) as caught:
        read_url("http://a:s3cret/")
    assert "s3cret" not in str(caught.value)
