from __future__ import annotations

import subprocess
import sys

import pytest

from spindle.errors import ConfigurationError
from spindle.stores.open import open_store, shown
from spindle.stores.postgres.address import parse
from spindle.stores.postgres.tools import regular_expression

SECRET = "s3cr3tw0rd"


def test_an_address_says_where_and_leaves_the_rest_to_defaults() -> None:
    address = parse("postgresql://ann@db.example/tools")
    assert address.schema == "spindle"
    assert address.pool_size == 4
    assert address.shown == "postgresql://ann@db.example/tools?schema=spindle"
    assert "connect_timeout=10" in address.conninfo
    assert "application_name=spindle" in address.conninfo


def test_parameters_of_ours_are_taken_out_and_those_of_libpq_are_kept() -> None:
    address = parse(
        "postgres://ann:x@db:5433/tools?schema=shop_2&pool_size=9&sslmode=require&connect_timeout=3"
    )
    assert (address.schema, address.pool_size) == ("shop_2", 9)
    assert "sslmode=require" in address.conninfo
    assert "connect_timeout=3" in address.conninfo
    assert "schema" not in address.conninfo
    assert address.shown == "postgresql://ann@db:5433/tools?schema=shop_2"


def test_several_hosts_and_a_socket_are_addresses_too() -> None:
    assert "host=one,two" in parse("postgresql://one:1,two:2/tools?target_session_attrs=read-write").conninfo
    assert "host=/run/pg" in parse("postgresql:///tools?host=/run/pg").conninfo


def test_the_password_is_masked_wherever_it_would_be_told() -> None:
    address = parse(f"postgresql://ann:{SECRET}%40x@db/tools?sslpassword=other-one")
    assert SECRET not in address.shown
    assert address.clean(f"bad password {SECRET}@x and other-one") == "bad password ••• and •••"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"postgresql://ann:a@{SECRET}@db/tools", "reserved character"),
        (f"postgresql://ann:a/{SECRET}@db/tools", "reserved character"),
        (f"postgresql://ann:a#{SECRET}@db/tools", "reserved character"),
        (f"postgresql://ann:{SECRET}%4@db/tools", "not one of a PostgreSQL database"),
        (f"postgresql://ann:{SECRET}@db:port/tools", "not one of a PostgreSQL database"),
        (f"postgresql://ann:{SECRET}@db:99999/tools", "not one of a PostgreSQL database"),
        (f"postgresql://ann:{SECRET}@[::1/tools", "not one of a PostgreSQL database"),
        (f"postgresql://ann:{SECRET}@db/tools?shema=x", "the parameter `shema`"),
        (f"postgresql://ann:{SECRET}@db/tools?schema=Shop", "cannot be called 'Shop'"),
        (f"postgresql://ann:{SECRET}@db/tools?schema=", "cannot be called ''"),
        (f"postgresql://ann:{SECRET}@db/tools?schema=pg_catalog", "cannot be called 'pg_catalog'"),
        (f"postgresql://ann:{SECRET}@db/tools?schema={'x' * 64}", "cannot be called"),
        (f"postgresql://ann:{SECRET}@db/tools?pool_size=0", "pool_size is '0'"),
        (f"postgresql://ann:{SECRET}@db/tools?pool_size=many", "pool_size is 'many'"),
        (f"postgresq://ann:{SECRET}@db/tools", "there is no such store"),
        (f"postgresql+asyncpg://ann:{SECRET}@db/tools", "there is no such store"),
        (f"mysql://ann:{SECRET}@db/tools", "there is no such store"),
    ],
)
async def test_a_mistake_in_the_address_is_told_without_the_password(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        await open_store(text)
    assert caught.value.hint
    assert SECRET not in repr(caught.value.to_dict())
    assert caught.value.__context__ is None or caught.value.__suppress_context__


async def test_a_mistyped_name_is_suggested() -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse("postgresql://db/tools?shema=x")
    assert caught.value.hint == "did you mean `schema`?"
    for scheme in ("postgresq", "postgresql+asyncpg"):
        with pytest.raises(ConfigurationError) as caught:
            await open_store(f"{scheme}://db/tools")
        assert caught.value.hint == "did you mean postgresql://?"


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("/home/ann/state.db", "/home/ann/state.db"),
        ("postgresql://ann:x@db:5/tools?schema=shop&password=y", "postgresql://db:5/tools?schema=shop"),
        ("postgresql://ann:a@b@db/tools", "postgresql://db/tools"),
    ],
)
def test_an_address_is_shown_without_credentials(address: str, expected: str) -> None:
    assert shown(address) == expected


def test_without_the_extra_the_message_says_what_to_install() -> None:
    program = (
        "import asyncio, sys\nsys.modules['psycopg'] = None\nfrom spindle.stores.open import open_store\n"
        "from spindle.errors import ConfigurationError\n"
        "try: asyncio.run(open_store('postgresql://u:pw@h/d'))\n"
        "except ConfigurationError as error: print(error.message, '|', error.hint)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert "needs a package that is not installed here" in done.stdout, done.stderr
    assert done.stdout.strip().endswith("| pip install 'spindle-tools[postgres]'")


def test_the_driver_is_imported_only_where_it_is_used() -> None:
    program = "import sys, spindle.app, spindle.cli.main; print('psycopg' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.stdout == "False\n", done.stderr


@pytest.mark.parametrize(
    ("glob", "expected"),
    [
        ("a*", "^(?:a.*)$"),
        ("a**?", "^(?:a.*.)$"),
        ("a.b", r"^(?:a\.b)$"),
        ("[a-c]x", "^(?:[a-c]x)$"),
        ("[^]a]", r"^(?:[^\]a])$"),
        ("[", "^(?!)"),
        ("[]", "^(?!)"),
        ("a|b", r"^(?:a\|b)$"),
    ],
)
def test_a_glob_becomes_a_regular_expression(glob: str, expected: str) -> None:
    assert regular_expression(glob) == expected
