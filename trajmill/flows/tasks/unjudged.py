"""Reads which trajectories of earlier rounds could not be judged; the judge stage of this round judges them again.

A judge stage of a round runs once. Only rows of earlier rounds are read. They are final, so that a round that is killed
and started again finds the same work.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from trajmill.flows.context import RoundContext
from trajmill.pipelines.reading.verdicts import read_verdicts
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.critics.judge import STAGE
from trajmill.stages.critics.unjudged import Unjudged, to_judge_again
from trajmill.warehouse.read import read_table


def unjudged_of_earlier_rounds(context: RoundContext, purpose: Purpose) -> list[Unjudged]:
    """Trajectories of a purpose from earlier rounds that are to be judged again, sorted by round and id."""
    failures = _earlier_rows(context, "failures", "stage", "input_id")
    failed_tries = Counter(
        input_id for stage, input_id in zip(failures["stage"], failures["input_id"], strict=True) if stage == STAGE
    )
    if not failed_tries:
        return []
    judgements = read_verdicts(
        context.warehouse, "judgements", ["trajectory_id"], rounds=range(context.round), run_id=context.run_id
    )
    rows = _earlier_rows(context, "trajectories", "round", "trajectory_id", "purpose")
    rounds = {
        trajectory_id: number
        for number, trajectory_id, found in zip(rows["round"], rows["trajectory_id"], rows["purpose"], strict=True)
        if found == purpose
    }
    return to_judge_again(rounds, failed_tries, set(judgements["trajectory_id"].to_pylist()))


def _earlier_rows(context: RoundContext, table: str, *names: str) -> dict[str, list[Any]]:
    rounds = range(context.round)
    rows = read_table(context.warehouse, table, names, rounds=rounds, run_id=context.run_id)
    return {name: rows[name].to_pylist() for name in names}
