"""The judged attempts so far: they decide which queries are tried, guided and replayed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from trajmill.stages.curate.reweight import average_after


class JudgedAttempt(NamedTuple):
    """One judged attempt at a training query."""

    round: int
    query_id: str
    trajectory_id: str
    steps: int
    guided: bool
    correct: bool


class ShortSuccess(NamedTuple):
    """A correct attempt; the smallest is the shortest, and of equal lengths the one with the smaller id."""

    steps: int
    trajectory_id: str
    round: int


class QueryHistory(NamedTuple):
    """The figures of one query; guided attempts count only in `shortest`."""

    tried: int = 0
    correct: int = 0
    average: float = 0.0
    """Moving average of the outcomes."""
    streak: int = 0
    """Correct attempts since the last failure."""
    shortest: ShortSuccess | None = None
    shortest_unguided: ShortSuccess | None = None

    def after(self, attempt: JudgedAttempt) -> QueryHistory:
        """Return the figures with one more attempt."""
        shortest, unguided = self.shortest, self.shortest_unguided
        if attempt.correct:
            success = ShortSuccess(attempt.steps, attempt.trajectory_id, attempt.round)
            shortest, unguided = min(shortest or success, success), min(unguided or success, success)
        if attempt.guided:
            return self._replace(shortest=shortest)
        return QueryHistory(
            tried=self.tried + 1,
            correct=self.correct + attempt.correct,
            average=average_after(self.average, attempt.correct),
            streak=self.streak + 1 if attempt.correct else 0,
            shortest=shortest,
            shortest_unguided=unguided,
        )


class History(NamedTuple):
    """The figures of all judged attempts of some rounds of a run."""

    queries: Mapping[str, QueryHistory]
    """By query id, the query tried last without guidance at the end."""

    @classmethod
    def of(cls, attempts: Iterable[JudgedAttempt]) -> History:
        """Count attempts, which come oldest first."""
        queries: dict[str, QueryHistory] = {}
        for attempt in attempts:
            before = queries.get(attempt.query_id, QueryHistory())
            if not attempt.guided:
                queries.pop(attempt.query_id, None)
            queries[attempt.query_id] = before.after(attempt)
        return cls(queries)

    def averages(self, query_ids: Collection[str]) -> dict[str, float]:
        """Return the success average of the unguided attempts at each query."""
        return {each: self.queries.get(each, QueryHistory()).average for each in query_ids}

    def rounds_of(self, trajectory_ids: Collection[str]) -> dict[str, int]:
        """Return the rounds of those trajectories that are a shortest success, by trajectory id."""
        found = (one for each in self.queries.values() for one in (each.shortest, each.shortest_unguided) if one)
        wanted = set(trajectory_ids)
        return {one.trajectory_id: one.round for one in found if one.trajectory_id in wanted}

    def shares(self) -> dict[str, float]:
        """Return the share of correct unguided attempts at each query; the query tried last comes last."""
        return {name: each.correct / each.tried for name, each in self.queries.items() if each.tried}

    def streaks(self) -> dict[str, int]:
        """Return by query the correct unguided attempts since the last failure."""
        return {name: each.streak for name, each in self.queries.items() if each.tried}

    def failures(self) -> dict[str, int]:
        """Return the number of failed unguided attempts at each query."""
        return {name: each.tried - each.correct for name, each in self.queries.items()}

    def shortest_success(self, *, guided: bool = True) -> dict[str, str]:
        """Return by query the id of its shortest correct trajectory; `guided` whether those with guidance count."""
        found = {name: each.shortest if guided else each.shortest_unguided for name, each in self.queries.items()}
        return {name: success.trajectory_id for name, success in found.items() if success}
