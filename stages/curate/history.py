"""The judged attempts so far: they decide which queries are tried, guided and replayed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import NamedTuple

from trajmill.stages.curate.reweight import success_average
from trajmill.stages.curate.selection import Success, shortest_successes


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

    def rounds_of(self, trajectory_ids: Collection[str]) -> dict[str, int]:
        """The rounds of some of the attempts, by trajectory id."""
        wanted = set(trajectory_ids)
        return {each.trajectory_id: each.round for each in self.attempts if each.trajectory_id in wanted}

    def shares(self) -> dict[str, float]:
        """Share of the unguided attempts at each query that were correct; the query tried last comes last."""
        outcomes: dict[str, list[bool]] = {}
        for attempt in self.attempts:
            if not attempt.guided:
                outcomes[attempt.query_id] = [*outcomes.pop(attempt.query_id, []), attempt.correct]
        return {query_id: sum(results) / len(results) for query_id, results in outcomes.items()}

    def streaks(self) -> dict[str, int]:
        """By query, the number of unguided attempts that were correct since the last one that was not."""
        counts: dict[str, int] = {}
        for attempt in self.attempts:
            if not attempt.guided:
                counts[attempt.query_id] = counts.get(attempt.query_id, 0) + 1 if attempt.correct else 0
        return counts

    def failures(self) -> dict[str, int]:
        """Number of failed unguided attempts at each query."""
        counts: dict[str, int] = defaultdict(int)
        for attempt in self.attempts:
            counts[attempt.query_id] += not attempt.guided and not attempt.correct
        return dict(counts)

    def shortest_success(self, *, guided: bool = True) -> dict[str, str]:
        """For each query that has been solved, the id of its shortest judged-correct trajectory.

        Args:
            guided: whether attempts with guidance count.
        """
        solved = [
            Success(attempt.query_id, attempt.trajectory_id, attempt.steps)
            for attempt in self.attempts
            if attempt.correct and (guided or not attempt.guided)
        ]
        chosen = shortest_successes(solved, per_query=1)
        return {success.query_id: success.trajectory_id for success in solved if success.trajectory_id in chosen}
