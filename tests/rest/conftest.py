from __future__ import annotations

from collections.abc import Iterator

import pytest

from servers.rest import RestWorkspace, Served


@pytest.fixture
def served(rest: RestWorkspace) -> Iterator[Served]:
    with rest.serve() as running:
        yield running
