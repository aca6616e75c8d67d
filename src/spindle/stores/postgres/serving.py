"""The audit log, and the tokens, groups and quotas of administrators, in PostgreSQL."""

from __future__ import annotations

from spindle.stores.postgres.queries import PostgresQueries
from spindle.stores.sql_serving import SqlServing


class PostgresServing(PostgresQueries, SqlServing):
    """The parts of the store that `AuditStore` and `AccessStore` describe."""
