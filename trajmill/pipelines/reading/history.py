"""Reads the judged attempts of a run from its committed trajectories and judgements."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from trajmill.pipelines.reading.kept_history import CoveredFiles, keep_history, kept_history
from trajmill.pipelines.reading.verdicts import read_verdicts
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.curate.history import History, JudgedAttempt
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_table

_COLLECTED = (Purpose.TRAIN, Purpose.GUIDED)


def read_history(warehouse: Warehouse, run_id: str, before: int) -> History:
    """Read the figures of the attempts at training queries, guided or not, that the run's own judge has judged.

    Only rounds that no kept figures cover are read; the figures of all are then kept.

    Args:
        warehouse: where to read.
        run_id: the run.
        before: the attempts of rounds before this one count.
    """
    covered = CoveredFiles(warehouse, run_id)
    kept = kept_history(warehouse, run_id, before, covered)
    if kept.before == before:
        return kept.history
    new = read_judged(warehouse, run_id, range(kept.before, before))
    # An attempt of a kept round that was judged later belongs between attempts whose order the figures do not have.
    all_of_them = new if not new.of_other_rounds else read_judged(warehouse, run_id, range(before))
    history = (History({}) if new.of_other_rounds else kept.history).after(all_of_them.attempts)
    keep_history(warehouse, run_id, before, history, covered)
    return history


class JudgedRounds(NamedTuple):
    """The judged attempts of some rounds."""

    attempts: tuple[JudgedAttempt, ...]
    """Oldest first."""
    of_other_rounds: bool
    """Whether there are judgements of attempts of other rounds."""


def read_judged(warehouse: Warehouse, run_id: str, rounds: Collection[int]) -> JudgedRounds:
    """Read the attempts at training queries, and the judgements of the run's own judge, of some rounds."""
    judgements = read_verdicts(warehouse, "judgements", ["trajectory_id", "correct"], rounds=rounds, run_id=run_id)
    correct = dict(zip(*(column.to_pylist() for column in judgements.columns), strict=True))
    columns = ["round", "query_id", "trajectory_id", "steps", "purpose", "attempt"]
    trajectories = read_table(warehouse, "trajectories", columns, rounds=rounds, run_id=run_id)
    rows = sorted(zip(*(column.to_pylist() for column in trajectories.columns), strict=True), key=_oldest_first)
    attempts = tuple(
        JudgedAttempt(number, query_id, trajectory_id, steps, purpose == Purpose.GUIDED, correct[trajectory_id])
        for number, query_id, trajectory_id, steps, purpose, _ in rows
        if purpose in _COLLECTED and trajectory_id in correct
    )
    return JudgedRounds(attempts, not correct.keys() <= set(trajectories["trajectory_id"].to_pylist()))


def _oldest_first(row: tuple[int, str, str, int, str, int]) -> tuple[int, str, str, int]:
    number, query_id, _, _, purpose, attempt = row
    return number, query_id, purpose, attempt
