"""Finds a value of each of some rows in the rounds where they most likely are, before it looks into older ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from trajmill.schemas.record import Origin
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_table


class Wanted(NamedTuple):
    """A column of rows of a table."""

    table: str
    key: str
    value: str


def values_by_id(
    warehouse: Warehouse, origin: Origin, wanted: Wanted, ids: Collection[str], rounds: Collection[int]
) -> Mapping[str, str | None]:
    """The values of a column by id, of those rows that there are up to a round.

    Args:
        warehouse: where to read.
        origin: the run, and the last of its rounds.
        wanted: the column.
        ids: the rows.
        rounds: the rounds that are looked into first; then come the others, the newest first, until all are found.
    """
    first = set(rounds)
    later = ([number] for number in range(origin.round, -1, -1) if number not in first)
    found: dict[str, str | None] = {}
    missing = set(ids)
    for numbers in (sorted(first), *later):
        if not missing:
            break
        columns = [wanted.key, wanted.value]
        rows = read_table(warehouse, wanted.table, columns, rounds=numbers, run_id=origin.run_id)
        rows = rows.filter(pc.is_in(rows[wanted.key], pa.array(sorted(missing), pa.string())))
        found.update(zip(*(column.to_pylist() for column in rows.columns), strict=True))
        missing -= found.keys()
    return found
