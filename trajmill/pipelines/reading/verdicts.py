"""Reads the committed verdicts of one judge: the run's own judge, or one that judged stored trajectories again."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_table


def read_verdicts(
    warehouse: Warehouse,
    table: str,
    columns: Sequence[str],
    *,
    run_id: str,
    rounds: Collection[int] | None = None,
    judge_id: str | None = None,
) -> pa.Table:
    """Read rows of one judge.

    Args:
        warehouse: where to read.
        table: a table with the column `judge_id`.
        columns: names of the columns to read.
        run_id: the run of the rows.
        rounds: only rows of these rounds; None reads all rounds.
        judge_id: id of the judge; None is the run's own judge, which alone decides what is trained on.
    """
    rows = read_table(warehouse, table, [*columns, "judge_id"], rounds=rounds, run_id=run_id)
    return of_judge(rows, judge_id).select(list(columns))


def of_judge(rows: pa.Table, judge_id: str | None) -> pa.Table:
    """The rows of one judge; None is the run's own."""
    column = rows["judge_id"]
    return rows.filter(pc.is_null(column) if judge_id is None else pc.equal(column, judge_id))
