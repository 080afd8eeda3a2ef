"""Finds queries that repeat another one, and held-out queries whose words are in the training split."""

from __future__ import annotations

from enum import Enum

from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.queries.phrasing import skeleton


class Novelty(Enum):
    """How a new query relates to those of the index."""

    NEW = "new"
    REPEATED = "repeated"
    """Another query has the same words and the same goal, so this one can be left out."""
    AMBIGUOUS = "the same words ask for something else in another query"
    NOT_HELD_OUT = "training says it in the same way"


class InstructionIndex:
    """The instructions of one query set; add training queries before held-out ones."""

    def __init__(self) -> None:
        """Start with no instructions."""
        self._goals: dict[tuple[str, ...], str] = {}
        self._trained_texts: set[str] = set()
        self._trained_skeletons: set[tuple[str, str]] = set()

    def novelty_of(self, query: Query) -> Novelty:
        """Whether the query is new; it is not added."""
        text = query.instruction.casefold()
        goal = self._goals.get((query.platform, query.start_state, text))
        if goal is not None:
            return Novelty.REPEATED if goal == query.goal_key() else Novelty.AMBIGUOUS
        if query.split is not Split.TRAIN and text in self._trained_texts:
            return Novelty.REPEATED
        if query.split is Split.HELDOUT_PHRASINGS and (query.task, skeleton(query)) in self._trained_skeletons:
            return Novelty.NOT_HELD_OUT
        return Novelty.NEW

    def add(self, query: Query) -> None:
        """Add a query."""
        text = query.instruction.casefold()
        self._goals[query.platform, query.start_state, text] = query.goal_key()
        if query.split is Split.TRAIN:
            self._trained_texts.add(text)
            self._trained_skeletons.add((query.task, skeleton(query)))
