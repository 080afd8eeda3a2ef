"""Keeps splits apart: repeated queries, and what training shares with held-out queries."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from enum import Enum, StrEnum
from typing import NamedTuple

from trajmill.schemas.tables.query import Query, Source, Split
from trajmill.stages.queries.templates import heldout_parts, phrasing_parts, skeleton


class Novelty(Enum):
    """How a new query relates to those of an index."""

    NEW = "new"
    REPEATED = "repeated"
    """Another query has the same words and goal, or another split has the goal or the words."""
    AMBIGUOUS = "the same words ask for something else in another query"
    NOT_HELD_OUT = "training says it in the same way"


class InstructionIndex:
    """The goals and words of a query set."""

    def __init__(self, known: Collection[Query] = ()) -> None:
        self._goals: dict[tuple[str, ...], str] = {}
        self._splits: dict[str, Split] = {}
        """By goal, its split."""
        self._trained_texts: set[str] = set()
        self._heldout_texts: set[str] = set()
        self._trained_sentences: set[tuple[str, str]] = set()
        self._heldout_sentences: set[tuple[str, str]] = set()
        for query in known:
            self.add(query)

    def has_goal(self, query: Query) -> bool:
        """Whether another query has the goal of this one."""
        return query.goal_key() in self._splits

    def novelty_of(self, query: Query) -> Novelty:
        """Compare a query with those of the index, without adding it."""
        text, sentence, is_train = query.instruction.casefold(), _sentence(query), query.split is Split.TRAIN
        goal = self._goals.get((query.platform, query.start_state, text))
        if goal is not None:
            return Novelty.REPEATED if goal == query.goal_key() else Novelty.AMBIGUOUS
        if self._splits.get(query.goal_key(), query.split) is not query.split:
            return Novelty.REPEATED
        if text in self._trained_texts and not is_train:
            return Novelty.REPEATED
        if is_train and (comparable(text) in self._heldout_texts or sentence in self._heldout_sentences):
            return Novelty.REPEATED
        if query.split is Split.HELDOUT_PHRASINGS and sentence in self._trained_sentences:
            return Novelty.NOT_HELD_OUT
        return Novelty.NEW

    def add(self, query: Query) -> None:
        """Add a query."""
        text = query.instruction.casefold()
        self._goals[query.platform, query.start_state, text] = query.goal_key()
        self._splits.setdefault(query.goal_key(), query.split)
        if query.split is Split.TRAIN:
            self._trained_texts.add(text)
            self._trained_sentences.add(_sentence(query))
        else:
            self._heldout_texts.add(comparable(text))
        if query.split is Split.HELDOUT_PHRASINGS:
            self._heldout_sentences.add(_sentence(query))


class LeakKind(StrEnum):
    """The kind of a leak."""

    GOAL = "goal"
    """Two splits have the same slots and start state of the same task."""
    INSTRUCTION = "instruction"
    """Two splits have the same instruction."""
    PHRASING = "phrasing"
    """Training has a held-out template or clause, or the words of a held-out sentence around other slot values."""
    APP = "app"
    """Training has a held-out app."""
    LINEAGE = "lineage"
    """A training text comes from a query that is not of the training split."""


class Leak(NamedTuple):
    """One held-out query or app in training data."""

    kind: LeakKind
    heldout: str
    """Id of the held-out query, or the name of the held-out app."""
    found_in: str
    """Id of the query or training text that has it."""
    detail: str


def leaks_in_queries(queries: Sequence[Query], heldout_apps: Collection[str]) -> tuple[Leak, ...]:
    """Find the held-out goals, instructions, phrasings and apps (named as in `Query.apps`) of training queries."""
    return tuple(_leaks(queries, heldout_apps))


def has_own_words(query: Query) -> bool:
    """Whether its instruction can be held out; imported tasks share one instruction between many start states."""
    return query.source is not Source.IMPORTED


def comparable(text: str) -> str:
    """Drop case, extra spaces and final punctuation of a text."""
    return " ".join(text.casefold().split()).rstrip(".!? ")


def _leaks(queries: Sequence[Query], heldout_apps: Collection[str]) -> Iterator[Leak]:
    train = [query for query in queries if query.split is Split.TRAIN]
    heldout = [query for query in queries if query.split is not Split.TRAIN]
    first: dict[str, Query] = {}
    for query in (*train, *heldout):
        other = first.setdefault(query.goal_key(), query)
        if other.split is not query.split:
            detail = f"{query.task}: the same goal in {query.split} and {other.split}"
            yield Leak(LeakKind.GOAL, query.query_id, other.query_id, detail)
    trained = {comparable(query.instruction): query.query_id for query in train}
    for query in heldout:
        found = trained.get(comparable(query.instruction)) if has_own_words(query) else None
        if found is not None:
            yield Leak(LeakKind.INSTRUCTION, query.query_id, found, f"the same words: {query.instruction}")
    parts = {part: query.query_id for query in train for part in phrasing_parts(query)}
    sentences = {_sentence(query): query.query_id for query in train}
    for query in heldout:
        for part in sorted(heldout_parts(query)):
            if part in parts:
                yield Leak(LeakKind.PHRASING, query.query_id, parts[part], f"training has the held-out phrasing {part}")
        found = sentences.get(_sentence(query)) if query.split is Split.HELDOUT_PHRASINGS else None
        if found is not None:
            detail = f"training says it in the same way: {query.instruction}"
            yield Leak(LeakKind.PHRASING, query.query_id, found, detail)
    for query in train:
        for part in sorted(heldout_parts(query)):
            yield Leak(LeakKind.PHRASING, part, query.query_id, "a training query has a phrasing marked as held out")
    for query in train:
        for app in sorted(set(query.apps) & set(heldout_apps)):
            yield Leak(LeakKind.APP, app, query.query_id, f"a training query needs the held-out app {app}")


def _sentence(query: Query) -> tuple[str, str]:
    return query.task, skeleton(query)
