"""The records of an online episode, and the queries that trainers may ask for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.names import instead_of
from trajmill.schemas.observation import Observation
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.models.base import ChatMessage
from trajmill.stages.rollout.base import AttemptVerdicts, FinishedAttempt

AGENT = "online"
"""Name of the agent on trajectories whose steps a trainer decided."""


class EpisodeOrder(NamedTuple):
    """The episode that a trainer asks for."""

    query_id: str | None = None
    """The query; None chooses one by the seed."""
    seed: int | None = None
    """The seed; None takes the next one."""
    policy: str = AGENT
    """The version of the trainer's policy for the rows."""
    record: bool = True
    """Whether the server stores the episode; a client that stores it itself says no."""


class ShownStep(NamedTuple):
    """What a trainer is shown before it decides on the next step."""

    observation: Observation
    steps: int
    messages: tuple[ChatMessage, ...]
    error: str
    """Why the last reply was no action; empty if it was one."""


class EndedEpisode(NamedTuple):
    """A finished episode."""

    attempt: FinishedAttempt
    reward: float | None
    """None if the episode is void, or there is neither a check nor a judgement."""

    @property
    def failure(self) -> str:
        """Why it is void; empty if it is not."""
        return self.attempt.failure.message if self.attempt.failure else ""

    @property
    def last(self) -> Observation | None:
        """The last observation; None without any."""
        steps = self.attempt.episode.steps
        seen = self.attempt.screens
        return seen[steps[-1].screen_after] if steps else next(iter(seen.values()), None)


RecordAttempt = Callable[[FinishedAttempt, AttemptVerdicts | None], Awaitable[None]]
"""Stores an attempt with its verdicts; it is awaited before the trainer gets the reward."""


class ServedQueries:
    """The queries of some splits, in order of id; no others are served."""

    def __init__(self, queries: Iterable[Query], splits: Collection[Split]) -> None:
        """Choose from all queries of a run. Raises BadInputError if these splits have no queries."""
        self._all = {query.query_id: query for query in sorted(queries, key=lambda query: query.query_id)}
        self.by_split: dict[Split, Sequence[Query]] = {
            split: [query for query in self._all.values() if query.split is split] for split in splits
        }
        self._served = [query for of_split in self.by_split.values() for query in of_split]
        if not self._served:
            raise BadInputError(f"no query is of split {', '.join(splits)}; {instead_of('', self._splits())}")

    def find(self, query_id: str) -> Query:
        """The query with an id. Raises BadInputError if there is none, or its split is not served."""
        query = self._all.get(query_id)
        if query is None:
            raise BadInputError(f"no query has the id {query_id!r:.60}; the task list names those that are served")
        if query.split not in self.by_split:
            raise BadInputError(
                f"query {query_id} is of split {query.split}, which is not served; serve it with --split"
            )
        return query

    def at(self, number: int) -> Query:
        """A pseudo-random query; equal numbers give equal queries."""
        return self._served[int(content_id("online query", number), 16) % len(self._served)]

    def _splits(self) -> list[str]:
        return sorted({query.split.value for query in self._all.values()})
