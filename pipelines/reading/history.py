"""How each query has fared so far, from committed trajectories and judgements."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import NamedTuple

from trajmill.pipelines.reading.verdicts import read_verdicts
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.curate.reweight import success_average
from trajmill.stages.curate.selection import Success, shortest_successes
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_table

_COLLECTED = (Purpose.TRAIN, Purpose.GUIDED)


class JudgedAttempt(NamedTuple):
    """One judged attempt at a training query."""

    round: int
    query_id: str
    trajectory_id: str
    steps: int
    guided: bool
    correct: bool


class History(NamedTuple):
    """All judged attempts of some rounds of a run, oldest first."""

    attempts: tuple[JudgedAttempt, ...]

    def averages(self, query_ids: Collection[str]) -> dict[str, float]:
        """Success average of the unguided attempts at each query."""
        outcomes: dict[str, list[bool]] = {query_id: [] for query_id in query_ids}
        for attempt in self.attempts:
            if not attempt.guided and attempt.query_id in outcomes:
                outcomes[attempt.query_id].append(attempt.correct)
        return {query_id: success_average(results) for query_id, results in outcomes.items()}

    def shares(self) -> dict[str, float]:
        """Share of the unguided attempts at each query that were correct; what was tried last comes last."""
        outcomes: dict[str, list[bool]] = {}
        for attempt in self.attempts:
            if not attempt.guided:
                outcomes[attempt.query_id] = [*outcomes.pop(attempt.query_id, []), attempt.correct]
        return {query_id: sum(results) / len(results) for query_id, results in outcomes.items()}

    def failures(self) -> dict[str, int]:
        """Number of failed unguided attempts at each query."""
        counts: dict[str, int] = defaultdict(int)
        for attempt in self.attempts:
            counts[attempt.query_id] += not attempt.guided and not attempt.correct
        return dict(counts)

    def shortest_success(self) -> dict[str, str]:
        """For each query that has been solved, the id of its shortest judged-correct trajectory."""
        solved = [
            Success(attempt.query_id, attempt.trajectory_id, attempt.steps)
            for attempt in self.attempts
            if attempt.correct
        ]
        chosen = shortest_successes(solved, per_query=1)
        return {success.query_id: success.trajectory_id for success in solved if success.trajectory_id in chosen}


def read_history(warehouse: Warehouse, run_id: str, rounds: Collection[int]) -> History:
    """The attempts made to learn from that the rounds' own judge has judged; one without a judgement says nothing."""
    judgements = read_verdicts(warehouse, "judgements", ["trajectory_id", "correct"], rounds=rounds, run_id=run_id)
    correct = dict(zip(*(column.to_pylist() for column in judgements.columns), strict=True))
    columns = ["round", "query_id", "trajectory_id", "steps", "purpose", "attempt"]
    trajectories = read_table(warehouse, "trajectories", columns, rounds=rounds, run_id=run_id)
    rows = sorted(zip(*(column.to_pylist() for column in trajectories.columns), strict=True), key=_oldest_first)
    return History(
        tuple(
            JudgedAttempt(number, query_id, trajectory_id, steps, purpose == Purpose.GUIDED, correct[trajectory_id])
            for number, query_id, trajectory_id, steps, purpose, _ in rows
            if purpose in _COLLECTED and trajectory_id in correct
        )
    )


def _oldest_first(row: tuple[int, str, str, int, str, int]) -> tuple[int, str, str, int]:
    number, query_id, _, _, purpose, attempt = row
    return number, query_id, purpose, attempt
