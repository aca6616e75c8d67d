"""Which addresses are inside, and that those which were checked are those connected."""

import pytest
from outbound import FOLLOWING

from servers.echo_server import PUBLIC, EchoServer
from spindle.errors import SpindleError
from spindle.http import addresses
from spindle.http.addresses import is_below, is_inside, is_loopback, is_written_inside, same_origin

INSIDE = [
    "127.0.0.1", "127.8.8.8", "::1", "0.0.0.0", "::", "10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1",
    "169.254.169.254", "fe80::1", "fe80::1%eth0", "fd00::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1",
    "2002:7f00:1::", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "198.18.0.1", "255.255.255.255",
    # Other ways to write, or to reach, an address of IPv4.
    "64:ff9b:1::7f00:1", "64:ff9b:1::5db8:d822", "2002:a9fe:a9fe::1", "2002:5db8:d822::1", "::127.0.0.1",
    "::93.184.216.34", "::ffff:0:10.0.0.1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "64:ff9b::a83f:8110",
    # Networks that are not the public one.
    "fec0::1", "fc00::1", "0.1.2.3", "100.127.255.255", "192.0.0.8", "192.88.99.1", "240.0.0.1", "224.0.0.1",
    "239.255.255.250", "ff02::1", "ff0e::1", "100::1", "2001:db8::1", "3fff::1", "5f00::1", "4000::1",
    # Where clouds keep the credentials of a machine.
    "169.254.170.2", "fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "192.0.0.192", "168.63.129.16",
]  # fmt: skip
OUTSIDE = ["93.184.216.34", "2606:2800:220:1::1", "::ffff:93.184.216.34", "64:ff9b::5db8:d822", "1.1.1.1"]


@pytest.mark.parametrize("address", INSIDE)
def test_addresses_of_this_machine_and_its_networks_are_inside(address: str) -> None:
    assert is_inside(address)
    assert is_written_inside(address)


@pytest.mark.parametrize("address", OUTSIDE)
def test_public_addresses_are_outside(address: str) -> None:
    assert not is_inside(address)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("metadata.google.internal", True), ("METADATA.google.internal.", True), ("metadata.goog", True),
        ("instance-data", True), ("instance-data.ec2.internal", True), ("printer.local", True),
        ("app.localhost", True), ("router.home.arpa", True), ("2130706433", True), ("0x7f.1", True),
        ("0177.0.0.1", True), ("0xa9fea9fe", True), ("example.com", False), ("internal.example.com", False),
        ("1572395042", False), ("", False),
    ],
)  # fmt: skip
def test_hosts_that_are_inside_by_the_way_they_are_written(host: str, expected: bool) -> None:
    assert is_written_inside(host) is expected


async def test_a_name_that_only_a_proxy_finds_leads_inside() -> None:
    assert await addresses.leads_inside("http://metadata.google.internal/computeMetadata/v1/")


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True), ("LOCALHOST", True), ("localhost.", True), ("127.0.0.1", True), ("[::1]", True),
        ("127.9.9.9", True), ("10.0.0.1", False), ("localhost.evil.test", False), ("", False),
    ],
)  # fmt: skip
def test_loopback_is_judged_as_it_is_written(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("http://a.test/x", "http://a.test:80/y?z", True), ("https://a.test", "https://a.test:443", True),
        ("http://A.test", "http://a.TEST", True), ("http://a.test", "https://a.test", False),
        ("http://a.test", "http://a.test:8080", False), ("http://a.test", "http://b.test", False),
        ("ws://a.test", "ws://a.test:80", True), ("http://\u00e4.test", "http://xn--4ca.test", True),
        ("http://a.test@b.test", "http://a.test", False), ("http://a.test", "nothing:\\ at all", False),
    ],
)  # fmt: skip
def test_an_origin_is_scheme_host_and_port(one: str, other: str, expected: bool) -> None:
    assert same_origin(one, other) is expected
    assert same_origin(other, one) is expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://a.test/v1", True), ("http://a.test/v1/", True), ("http://a.test/v1/x?y", True),
        ("http://a.test/v1?y", True), ("http://a.test/v10", False), ("http://a.test/", False),
        ("http://b.test/v1/x", False), ("https://a.test/v1/x", False),
    ],
)  # fmt: skip
def test_below_a_base_is_what_continues_its_path(url: str, expected: bool) -> None:
    assert is_below(url, "http://a.test/v1") is expected


@pytest.mark.parametrize("who", ["openapi", "utcp", "documents", "oauth"])
@pytest.mark.parametrize("found", [[PUBLIC, "127.0.0.1"], ["127.0.0.1", PUBLIC], [PUBLIC, "::ffff:10.0.0.1"]])
async def test_a_name_with_one_address_inside_is_not_connected(
    who: str,
    found: list[str],
    echo: EchoServer,
    names: dict[str, list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def addresses_of(host: str) -> list[str]:
        return found if host == "localhost" else [PUBLIC]

    monkeypatch.setattr(addresses, "addresses_of", addresses_of)
    url = echo.url.replace("127.0.0.1", "localhost")
    with pytest.raises(SpindleError, match=r"private network|inside this network"):
        await FOLLOWING[who]("GET", f"{url}/a", {}, None, public_only=True)
    assert echo.requests == []


# Parts that are told addresses by others, and keep to public ones then.
CHECKING = ("openapi", "utcp", "documents", "oauth")


@pytest.mark.parametrize("who", CHECKING)
@pytest.mark.parametrize("found", [["127.0.0.1"], [PUBLIC, "127.0.0.1"]], ids=["inside", "changing"])
async def test_a_name_that_somebody_else_chose_may_not_lead_inside(
    who: str, found: list[str], echo: EchoServer, names: dict[str, list[str]]
) -> None:
    """The resolver may change its answer between two questions."""
    # OAuth takes no other name without TLS.
    names |= {"localhost": list(found), "source.test": [PUBLIC]}
    url = echo.url.replace("127.0.0.1", "localhost")
    try:
        await FOLLOWING[who]("GET", f"{url}/a", {}, None, public_only=True)
    except SpindleError as error:
        assert "private network" in error.message or "inside this network" in error.message  # noqa: PT017
    at_all = {request.address for request in echo.requests}
    assert at_all <= {PUBLIC}
