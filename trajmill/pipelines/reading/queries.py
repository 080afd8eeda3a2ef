"""Reads the queries of a run once per process and commit; workers find queries by id, so none is sent to them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from trajmill.schemas.tables.query import INFEASIBLE, RECORDED, Query
from trajmill.schemas.tables.registry import rows_from_arrow
from trajmill.warehouse.delta_log import newest_log_entry
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_rows, read_table

_NOT_ATTEMPTED = frozenset({RECORDED, INFEASIBLE})


def queries_of(warehouse: Warehouse, run_id: str) -> Mapping[str, Query]:
    """The committed queries of a run by id, in order of id.

    A round may add queries, so they are read again after each commit. Keep the mapping to look up many queries.
    """
    return _as_of(warehouse, run_id, newest_log_entry(warehouse, "queries"))


def attemptable(queries: Mapping[str, Query]) -> Mapping[str, Query]:
    """The queries that an environment can start: all but those of imported recordings and refused proposals."""
    if all(query.validation not in _NOT_ATTEMPTED for query in queries.values()):
        return queries
    return {query_id: query for query_id, query in queries.items() if query.validation not in _NOT_ATTEMPTED}


def queries_named(warehouse: Warehouse, run_id: str, query_ids: Collection[str]) -> Mapping[str, Query]:
    """Some committed queries of a run by id; for a few, this is faster than `queries_of`."""
    rows = read_table(warehouse, "queries", run_id=run_id)
    chosen = rows.filter(pc.is_in(rows["query_id"], pa.array(sorted(query_ids), pa.string())))
    return {row.query_id: row for row in rows_from_arrow("queries", chosen) if isinstance(row, Query)}


@lru_cache(maxsize=4)
def _as_of(warehouse: Warehouse, run_id: str, log_entry: str) -> Mapping[str, Query]:
    rows = read_rows(warehouse, Query, run_id=run_id)
    return {query.query_id: query for query in sorted(rows, key=lambda query: query.query_id)}
