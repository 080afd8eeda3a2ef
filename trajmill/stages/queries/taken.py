"""What a run has already: the goals and words that new training queries must not have."""

from __future__ import annotations

from collections.abc import Collection

from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.queries.novelty import InstructionIndex, Novelty
from trajmill.stages.queries.phrasing import skeleton
from trajmill.stages.queries.split_leaks import comparable


class TakenQueries:
    """The goals and words that new training queries must not have."""

    def __init__(self, known: Collection[Query]) -> None:
        """Take all queries of a run."""
        heldout = [query for query in known if query.split is not Split.TRAIN]
        self._heldout_goals = {query.goal_key() for query in heldout}
        self._heldout_texts = {comparable(query.instruction) for query in heldout}
        self._heldout_sentences = {
            (query.task, skeleton(query)) for query in heldout if query.split is Split.HELDOUT_PHRASINGS
        }
        self._goals = {query.goal_key() for query in known}
        self._index = InstructionIndex()
        for query in known:
            self._index.add(query)

    def has_goal(self, query: Query) -> bool:
        """Whether the run has the goal of a query."""
        return query.goal_key() in self._goals

    def allows(self, query: Query) -> bool:
        """Whether a training query is new, and shows nothing that is held out."""
        return (
            self._index.novelty_of(query) is Novelty.NEW
            and query.goal_key() not in self._heldout_goals
            and comparable(query.instruction) not in self._heldout_texts
            and (query.task, skeleton(query)) not in self._heldout_sentences
        )

    def add(self, query: Query) -> None:
        """Add a new query."""
        self._goals.add(query.goal_key())
        self._index.add(query)
