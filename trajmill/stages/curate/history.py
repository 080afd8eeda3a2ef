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
    """A correct attempt."""

    steps: int
    trajectory_id: str
    round: int


class QueryHistory(NamedTuple):
    """The figures of one query; guided attempts count only in `shortest`."""

    query_id: str
    tried: int = 0
    correct: int = 0
    average: float = 0.0
    """Moving average of the outcomes."""
    streak: int = 0
    """Attempts that were correct since the last one that was not."""
    shortest: ShortSuccess | None = None
    """The shortest success; of equal lengths the one with the smaller id."""
    shortest_unguided: ShortSuccess | None = None

    def after(self, attempt: JudgedAttempt) -> QueryHistory:
        """The figures with one more attempt."""
        success = ShortSuccess(steps=attempt.steps, trajectory_id=attempt.trajectory_id, round=attempt.round)
        shortest = _shorter(self.shortest, success) if attempt.correct else self.shortest
        if attempt.guided:
            return self._replace(shortest=shortest)
        return QueryHistory(
            query_id=self.query_id,
            tried=self.tried + 1,
            correct=self.correct + attempt.correct,
            average=average_after(self.average, attempt.correct),
            streak=self.streak + 1 if attempt.correct else 0,
            shortest=shortest,
            shortest_unguided=_shorter(self.shortest_unguided, success) if attempt.correct else self.shortest_unguided,
        )


class History(NamedTuple):
    """The figures of all judged attempts of some rounds of a run."""

    queries: Mapping[str, QueryHistory]
    """By query id, the query tried last without guidance at the end."""

    @classmethod
    def of(cls, attempts: Iterable[JudgedAttempt]) -> History:
        """The figures of attempts, which come oldest first."""
        queries: dict[str, QueryHistory] = {}
        for attempt in attempts:
            query_id = attempt.query_id
            before = queries.get(query_id) or QueryHistory(query_id=query_id)
            if not attempt.guided:
                queries.pop(query_id, None)
            queries[query_id] = before.after(attempt)
        return cls(queries)

    def averages(self, query_ids: Collection[str]) -> dict[str, float]:
        """Success average of the unguided attempts at each query."""
        return {each: self.queries[each].average if each in self.queries else 0.0 for each in query_ids}

    def rounds_of(self, trajectory_ids: Collection[str]) -> dict[str, int]:
        """The rounds of those trajectories that are a shortest success, by trajectory id."""
        wanted = set(trajectory_ids)
        found = (one for each in self.queries.values() for one in (each.shortest, each.shortest_unguided) if one)
        return {one.trajectory_id: one.round for one in found if one.trajectory_id in wanted}

    def shares(self) -> dict[str, float]:
        """Share of the unguided attempts at each query that were correct; the query tried last comes last."""
        return {name: each.correct / each.tried for name, each in self.queries.items() if each.tried}

    def streaks(self) -> dict[str, int]:
        """By query, the number of unguided attempts that were correct since the last one that was not."""
        return {name: each.streak for name, each in self.queries.items() if each.tried}

    def failures(self) -> dict[str, int]:
        """Number of failed unguided attempts at each query."""
        return {name: each.tried - each.correct for name, each in self.queries.items()}

    def shortest_success(self, *, guided: bool = True) -> dict[str, str]:
        """For each query that has been solved, the id of its shortest judged-correct trajectory.

        Args:
            guided: whether attempts with guidance count.
        """
        found = {name: each.shortest if guided else each.shortest_unguided for name, each in self.queries.items()}
        return {name: success.trajectory_id for name, success in found.items() if success}


def _shorter(one: ShortSuccess | None, other: ShortSuccess) -> ShortSuccess:
    return min(one or other, other, key=lambda each: (each.steps, each.trajectory_id))
