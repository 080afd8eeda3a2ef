"""The queries of a run, read once per process: workers look them up by id instead of being sent them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from schemas.query import Query
from warehouse.layout import Warehouse
from warehouse.read import read_rows


@lru_cache(maxsize=4)
def queries_of(warehouse: Warehouse, run_id: str) -> Mapping[str, Query]:
    """The queries of a run by id, in order of id; to be asked once they are committed, for they never change."""
    rows = read_rows(warehouse, Query, run_id=run_id)
    return {query.query_id: query for query in sorted(rows, key=lambda query: query.query_id)}
