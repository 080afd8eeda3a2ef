"""Reads the verdicts of one judge, the judged attempts so far, and what rewards are made of, without texts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.curate.history import History, JudgedAttempt
from trajmill.stages.derive.rewards import RewardMoments, moments, reward_of
from trajmill.stages.derive.rl_plan import RLAttempt
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_batches, read_table

_COLLECTED = (Purpose.TRAIN, Purpose.GUIDED)
_JUDGED = ["trajectory_id", "correct"]
_ATTEMPT = ("trajectory_id", "query_id", "round", "model_version", "purpose", "status")


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
    """Keep the rows of one judge; None is the run's own."""
    column = rows["judge_id"]
    return rows.filter(pc.is_null(column) if judge_id is None else pc.equal(column, judge_id))


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
    judgements = read_verdicts(warehouse, "judgements", _JUDGED, rounds=rounds, run_id=run_id)
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


def read_rl_attempts(
    warehouse: Warehouse,
    run_id: str,
    trajectory_ids: Collection[str],
    rounds: Collection[int],
    judged_until: int,
) -> list[RLAttempt]:
    """Read what decides the groups and rewards of some attempts.

    Args:
        warehouse: where to read.
        run_id: the run of the attempts.
        trajectory_ids: the attempts.
        rounds: the rounds in which they were made.
        judged_until: the last round whose judgements count: a judge may decide rounds later what it could not at first.
    """
    chosen = pa.array(sorted(trajectory_ids), pa.string())
    table = read_table(warehouse, "trajectories", _ATTEMPT, rounds=rounds, run_id=run_id)
    rows = table.filter(pc.is_in(table["trajectory_id"], chosen))
    judged_in = range(min(rounds), judged_until + 1)
    judgements = read_verdicts(warehouse, "judgements", _JUDGED, rounds=judged_in, run_id=run_id)
    return _attempts(rows, judgements, count_replies(warehouse, run_id, rounds), _splits(warehouse, run_id))


def look_up_rl_attempts(
    warehouse: Warehouse, run_id: str, rounds_of: Mapping[str, int], judged_until: int
) -> list[RLAttempt]:
    """Read the same of a few attempts of many rounds, and of no others.

    Args:
        warehouse: where to read.
        run_id: the run of the attempts.
        rounds_of: by trajectory id, the round of the attempt.
        judged_until: as in `read_rl_attempts`.
    """
    if not rounds_of:
        return []
    rounds, where = sorted(set(rounds_of.values())), {"trajectory_id": rounds_of}
    rows = read_table(warehouse, "trajectories", _ATTEMPT, run_id=run_id, rounds=rounds, where=where)
    judged_in = range(rounds[0], judged_until + 1)
    judgements = of_judge(read_table(warehouse, "judgements", run_id=run_id, rounds=judged_in, where=where), None)
    columns = ["trajectory_id", "action_kind"]
    replies = Replies(Counter(), Counter())
    replies.add(read_table(warehouse, "steps", columns, run_id=run_id, rounds=rounds, where=where))
    return _attempts(rows, judgements.select(_JUDGED), replies, _splits(warehouse, run_id))


def reward_moments(warehouse: Warehouse, run_id: str, before: int, without: Collection[str]) -> list[RewardMoments]:
    """Read the moments of the rewards of all judged unguided attempts, by round, oldest first.

    Args:
        warehouse: where to read.
        run_id: the run.
        before: the rounds before this one count.
        without: ids of trajectories that do not count.
    """
    malformed = count_replies(warehouse, run_id, range(before)).malformed
    rewards: dict[int, list[float]] = defaultdict(list)
    for attempt in read_judged(warehouse, run_id, range(before)):
        if attempt.steps and not attempt.guided and attempt.trajectory_id not in without:
            reward = reward_of(attempt.correct, malformed[attempt.trajectory_id], attempt.steps)
            rewards[attempt.round].append(reward.total)
    return [moments(rewards[number]) for number in sorted(rewards)]


def _splits(warehouse: Warehouse, run_id: str) -> dict[str, str]:
    """The split of each query, by id."""
    queries = read_table(warehouse, "queries", ["query_id", "split"], run_id=run_id)
    return dict(zip(*(column.to_pylist() for column in queries.columns), strict=True))


def _attempts(rows: pa.Table, judgements: pa.Table, replies: Replies, splits: Mapping[str, str]) -> list[RLAttempt]:
    correct = dict(zip(*(column.to_pylist() for column in judgements.columns), strict=True))
    return [
        RLAttempt(
            trajectory_id=trajectory_id,
            query_id=query_id,
            split=splits[query_id],
            round=number,
            model_version=version,
            purpose=purpose,
            status=status,
            steps=replies.steps[trajectory_id],
            malformed=replies.malformed[trajectory_id],
            correct=correct.get(trajectory_id),
        )
        for trajectory_id, query_id, number, version, purpose, status in zip(
            *(rows[name].to_pylist() for name in _ATTEMPT), strict=True
        )
    ]


class Replies(NamedTuple):
    """By trajectory id, how many steps it has."""

    steps: Counter[str]
    malformed: Counter[str]
    """Those whose reply could not be parsed."""

    def add(self, steps: pa.Table | pa.RecordBatch) -> None:
        """Add steps, with the columns `trajectory_id` and `action_kind`."""
        names, kinds = steps["trajectory_id"], steps["action_kind"]
        _count(self.steps, names)
        _count(self.malformed, names.filter(pc.equal(kinds, "unparsed")))


def count_replies(warehouse: Warehouse, run_id: str, rounds: Collection[int]) -> Replies:
    """Count the replies of the attempts of some rounds."""
    found = Replies(Counter(), Counter())
    for batch in read_batches(warehouse, "steps", ["trajectory_id", "action_kind"], rounds=rounds, run_id=run_id):
        found.add(batch)
    return found


def _count(counter: Counter[str], names: pa.Array | pa.ChunkedArray) -> None:
    for counted in pc.value_counts(names).to_pylist():
        counter[counted["values"]] += counted["counts"]
