"""Reads the judged attempts of a run from its committed trajectories and judgements."""

from __future__ import annotations

from collections.abc import Collection

from trajmill.pipelines.reading.verdicts import read_verdicts
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.curate.history import History, JudgedAttempt
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_table

_COLLECTED = (Purpose.TRAIN, Purpose.GUIDED)


def read_history(warehouse: Warehouse, run_id: str, before: int) -> History:
    """Read the figures of the attempts at training queries, guided or not, that the run's own judge has judged.

    Args:
        warehouse: where to read.
        run_id: the run.
        before: the attempts of rounds before this one count.
    """
    return History.of(read_judged(warehouse, run_id, range(before)))


def read_judged(warehouse: Warehouse, run_id: str, rounds: Collection[int]) -> tuple[JudgedAttempt, ...]:
    """Read the attempts of some rounds at training queries that the run's own judge has judged, oldest first."""
    judgements = read_verdicts(warehouse, "judgements", ["trajectory_id", "correct"], rounds=rounds, run_id=run_id)
    correct = dict(zip(*(column.to_pylist() for column in judgements.columns), strict=True))
    columns = ["round", "query_id", "trajectory_id", "steps", "purpose", "attempt"]
    trajectories = read_table(warehouse, "trajectories", columns, rounds=rounds, run_id=run_id)
    rows = sorted(zip(*(column.to_pylist() for column in trajectories.columns), strict=True), key=_oldest_first)
    return tuple(
        JudgedAttempt(number, query_id, trajectory_id, steps, purpose == Purpose.GUIDED, correct[trajectory_id])
        for number, query_id, trajectory_id, steps, purpose, _ in rows
        if purpose in _COLLECTED and trajectory_id in correct
    )


def _oldest_first(row: tuple[int, str, str, int, str, int]) -> tuple[int, str, str, int]:
    number, query_id, _, _, purpose, attempt = row
    return number, query_id, purpose, attempt
