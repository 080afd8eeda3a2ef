"""What has been asked so far: no two queries say the same, and nothing held out is said in training."""

from __future__ import annotations

from enum import Enum

from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.queries.phrasing import skeleton


class Entry(Enum):
    """What the ledger says to a new query."""

    NEW = "new"
    REPEATED = "repeated"
    """It says what another one says already: no loss to leave it out."""
    AMBIGUOUS = "the same words ask for something else in another query"
    NOT_HELD_OUT = "training says it in the same way"


class Ledger:
    """The instructions of one query set; training queries must be entered before held-out ones."""

    def __init__(self) -> None:
        """Empty."""
        self._goals: dict[tuple[str, ...], str] = {}
        self._trained_texts: set[str] = set()
        self._trained_skeletons: set[tuple[str, str]] = set()

    def look_up(self, query: Query) -> Entry:
        """Whether the query may be added; nothing is entered."""
        text = query.instruction.casefold()
        goal = self._goals.get((query.platform, query.start_state, text))
        if goal is not None:
            return Entry.REPEATED if goal == query.goal_key() else Entry.AMBIGUOUS
        if query.split is not Split.TRAIN and text in self._trained_texts:
            return Entry.REPEATED
        if query.split is Split.HELDOUT_PHRASINGS and (query.task, skeleton(query)) in self._trained_skeletons:
            return Entry.NOT_HELD_OUT
        return Entry.NEW

    def enter(self, query: Query) -> None:
        """Remember a query."""
        text = query.instruction.casefold()
        self._goals[query.platform, query.start_state, text] = query.goal_key()
        if query.split is Split.TRAIN:
            self._trained_texts.add(text)
            self._trained_skeletons.add((query.task, skeleton(query)))
