"""Trajectories that no critic could judge: the judge stages of the next rounds take them up again, within bounds.

A judge stage is done once. What it could not judge, because a server was down or a critic answered garbage, stands in
`failures` and has no judgement. The same stage of the next round judges it along with that round's own trajectories.
Only rows of earlier rounds are looked at: they are final, so that a round that is killed and started again finds the
same work.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from trajmill.flows.context import RoundContext
from trajmill.pipelines.reading.verdicts import read_verdicts
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.critics.judge import STAGE
from trajmill.warehouse.read import read_table

TRIED_AT_MOST = 3
"""Rounds in which a trajectory is judged before it is given up."""


class Unjudged(NamedTuple):
    """A trajectory that is to be judged again."""

    round: int
    """The round in which it was rolled out."""
    trajectory_id: str
    tried: int
    """How often it could not be judged."""


def taken_up(context: RoundContext, purpose: Purpose) -> list[Unjudged]:
    """Trajectories of earlier rounds that could not be judged so far and are not given up, in order."""
    failures = _earlier(context, "failures", "stage", "input_id")
    tried = Counter(
        input_id for stage, input_id in zip(failures["stage"], failures["input_id"], strict=True) if stage == STAGE
    )
    if not tried:
        return []
    decided = read_verdicts(
        context.warehouse, "judgements", ["trajectory_id"], rounds=range(context.round), run_id=context.run_id
    )
    judged = set(decided["trajectory_id"].to_pylist())
    rows = _earlier(context, "trajectories", "round", "trajectory_id", "purpose")
    return sorted(
        Unjudged(number, trajectory_id, tried[trajectory_id])
        for number, trajectory_id, found in zip(rows["round"], rows["trajectory_id"], rows["purpose"], strict=True)
        if found == purpose and trajectory_id not in judged and 0 < tried[trajectory_id] < TRIED_AT_MOST
    )


def _earlier(context: RoundContext, table: str, *names: str) -> dict[str, list[Any]]:
    rounds = range(context.round)
    rows = read_table(context.warehouse, table, names, rounds=rounds, run_id=context.run_id)
    return {name: rows[name].to_pylist() for name in names}
