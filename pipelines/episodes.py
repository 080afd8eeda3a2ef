"""Committed trajectories with their steps, as episodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.queries import queries_of
from schemas.episode import Episode
from schemas.record import Row
from schemas.step import Step
from schemas.tables import rows_from_arrow
from schemas.trajectory import Trajectory
from schemas.verdict import Judgement, StepVerdict, TrajectoryVerdict
from warehouse.layout import Warehouse
from warehouse.read import read_table

R = TypeVar("R", bound=Row)


def read_episodes(
    warehouse: Warehouse,
    run_id: str,
    trajectory_ids: Collection[str],
    rounds: Collection[int] | None = None,
    with_verdicts: bool = False,
) -> list[Episode]:
    """The episodes of the trajectories named, in the order of their ids.

    Args:
        warehouse: where to read.
        run_id: the run that they are of.
        trajectory_ids: which trajectories.
        rounds: rounds they are of, to read less; all if None.
        with_verdicts: whether step verdicts, votes and the judgement are read too.
    """
    queries = queries_of(warehouse, run_id)
    trajectories = _rows(warehouse, "trajectories", Trajectory, trajectory_ids, rounds)
    steps: dict[str, list[Step]] = defaultdict(list)
    for step in _rows(warehouse, "steps", Step, trajectory_ids, rounds):
        steps[step.trajectory_id].append(step)
    verdicts: dict[str, list[StepVerdict]] = defaultdict(list)
    votes: dict[str, list[TrajectoryVerdict]] = defaultdict(list)
    judgements: dict[str, Judgement] = {}
    if with_verdicts:
        for verdict in _rows(warehouse, "step_verdicts", StepVerdict, trajectory_ids, rounds):
            verdicts[verdict.trajectory_id].append(verdict)
        for vote in _rows(warehouse, "trajectory_verdicts", TrajectoryVerdict, trajectory_ids, rounds):
            votes[vote.trajectory_id].append(vote)
        found = _rows(warehouse, "judgements", Judgement, trajectory_ids, rounds)
        judgements = {judgement.trajectory_id: judgement for judgement in found}
    return [
        Episode(
            query=queries[trajectory.query_id],
            trajectory=trajectory,
            steps=tuple(sorted(steps[trajectory.trajectory_id], key=lambda step: step.index)),
            step_verdicts=tuple(sorted(verdicts[trajectory.trajectory_id], key=lambda verdict: verdict.index)),
            trajectory_verdicts=tuple(
                sorted(votes[trajectory.trajectory_id], key=lambda vote: (vote.channel, vote.vote))
            ),
            judgement=judgements.get(trajectory.trajectory_id),
        )
        for trajectory in sorted(trajectories, key=lambda row: row.trajectory_id)
    ]


def _rows(
    warehouse: Warehouse, table: str, record: type[R], trajectory_ids: Collection[str], rounds: Collection[int] | None
) -> list[R]:
    data = read_table(warehouse, table, rounds=rounds)
    chosen = data.filter(pc.is_in(data["trajectory_id"], pa.array(sorted(trajectory_ids), pa.string())))
    return [row for row in rows_from_arrow(table, chosen) if isinstance(row, record)]
