"""Half a minute that passes at once, for runs whose process has given no sign of life since."""

from __future__ import annotations

from typing import Any


async def end_leases(store: Any) -> None:
    """Ends the leases of all runs, whoever holds them."""
    await store._change("UPDATE {schema}.runs SET lease_until = 0 WHERE lease_until IS NOT NULL")
