"""Reads the verdicts of one judge, the judged attempts so far, and what rewards are made of, without texts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Unpack

import pyarrow as pa
import pyarrow.compute as pc

from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.curate.history import History, JudgedAttempt
from trajmill.stages.derive.rewards import RewardMoments, moments, reward_of
from trajmill.stages.derive.rl_plan import RLAttempt
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import WantedRows, read_batches, read_table

_COLLECTED = (Purpose.TRAIN, Purpose.GUIDED)
_ATTEMPT = ("trajectory_id", "query_id", "round", "model_version", "purpose", "status")


def read_verdicts(
    warehouse: Warehouse,
    table: str,
    columns: Sequence[str],
    *,
    judge_id: str | None = None,
    **wanted: Unpack[WantedRows],
) -> pa.Table:
    """Read rows of one judge from a table with the column `judge_id`.

    Without `judge_id` they are those of the run's own judge, which alone decides what is trained on.
    """
    return of_judge(read_table(warehouse, table, [*columns, "judge_id"], **wanted), judge_id).select(list(columns))


def of_judge(rows: pa.Table, judge_id: str | None) -> pa.Table:
    """Keep the rows of one judge; None is the run's own."""
    column = rows["judge_id"]
    return rows.filter(pc.is_null(column) if judge_id is None else pc.equal(column, judge_id))


def read_history(warehouse: Warehouse, run_id: str, before: int) -> History:
    """Read the figures of the judged attempts at training queries in the rounds before `before`."""
    return History.of(read_judged(warehouse, run_id, range(before)))


def read_judged(warehouse: Warehouse, run_id: str, rounds: Collection[int]) -> tuple[JudgedAttempt, ...]:
    """Read the attempts at training queries, guided or not, that the run's own judge has judged, oldest first."""
    correct = _correct(warehouse, run_id=run_id, rounds=rounds)
    columns = ["round", "query_id", "purpose", "attempt", "trajectory_id", "steps"]
    trajectories = read_table(warehouse, "trajectories", columns, rounds=rounds, run_id=run_id)
    rows = zip(*(column.to_pylist() for column in trajectories.columns), strict=True)
    return tuple(
        JudgedAttempt(number, query_id, trajectory_id, steps, purpose == Purpose.GUIDED, correct[trajectory_id])
        for number, query_id, purpose, _, trajectory_id, steps in sorted(rows, key=lambda row: row[:4])
        if purpose in _COLLECTED and trajectory_id in correct
    )


def read_rl_attempts(
    warehouse: Warehouse, run_id: str, trajectory_ids: Collection[str], rounds: Collection[int], judged_until: int
) -> list[RLAttempt]:
    """Read what decides the groups and rewards of some attempts of `rounds`.

    Judgements count up to round `judged_until`: a judge may decide rounds later what it could not at first.
    """
    if not trajectory_ids:
        return []
    where = {"trajectory_id": trajectory_ids}
    rows = read_table(warehouse, "trajectories", _ATTEMPT, rounds=rounds, run_id=run_id, where=where)
    correct = _correct(warehouse, run_id=run_id, rounds=range(min(rounds), judged_until + 1), where=where)
    steps, malformed = _count_replies(warehouse, run_id=run_id, rounds=rounds, where=where)
    queries = read_table(warehouse, "queries", ["query_id", "split"], run_id=run_id)
    splits = dict(zip(*(column.to_pylist() for column in queries.columns), strict=True))
    return [
        RLAttempt(
            trajectory_id=trajectory_id,
            query_id=query_id,
            split=splits[query_id],
            round=number,
            model_version=version,
            purpose=purpose,
            status=status,
            steps=steps[trajectory_id],
            malformed=malformed[trajectory_id],
            correct=correct.get(trajectory_id),
        )
        for trajectory_id, query_id, number, version, purpose, status in zip(
            *(rows[name].to_pylist() for name in _ATTEMPT), strict=True
        )
    ]


def reward_moments(warehouse: Warehouse, run_id: str, before: int, without: Collection[str]) -> list[RewardMoments]:
    """Read the moments of the rewards of all judged unguided attempts, by round, oldest first.

    Rounds before `before` count, and no trajectories of `without`.
    """
    _, malformed = _count_replies(warehouse, run_id=run_id, rounds=range(before))
    rewards: dict[int, list[float]] = defaultdict(list)
    for attempt in read_judged(warehouse, run_id, range(before)):
        if attempt.steps and not attempt.guided and attempt.trajectory_id not in without:
            reward = reward_of(attempt.correct, malformed[attempt.trajectory_id], attempt.steps)
            rewards[attempt.round].append(reward.total)
    return [moments(rewards[number]) for number in sorted(rewards)]


def _correct(warehouse: Warehouse, **wanted: Unpack[WantedRows]) -> Mapping[str, bool]:
    rows = read_verdicts(warehouse, "judgements", ["trajectory_id", "correct"], **wanted)
    return dict(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def _count_replies(warehouse: Warehouse, **wanted: Unpack[WantedRows]) -> tuple[Counter[str], Counter[str]]:
    """Count steps by trajectory id: all of them, and those whose reply could not be parsed."""
    steps, malformed = Counter[str](), Counter[str]()
    for batch in read_batches(warehouse, "steps", ["trajectory_id", "action_kind"], **wanted):
        names = batch["trajectory_id"]
        unparsed = names.filter(pc.equal(batch["action_kind"], "unparsed"))
        for counter, counted in ((steps, names), (malformed, unparsed)):
            for value in pc.value_counts(counted).to_pylist():
                counter[value["values"]] += value["counts"]
    return steps, malformed
