"""Keeps splits apart: repeated queries, and what training shares with held-out queries."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum, StrEnum
from itertools import islice
from typing import NamedTuple, Protocol, TypeVar

from trajmill.schemas.tables.query import Query, Source, Split
from trajmill.stages.queries.templates import blank, heldout_parts, phrasing_parts


class Novelty(Enum):
    NEW = "new"
    REPEATED = "repeated"
    """Another query has the same words and goal, or another split has the goal or the words."""
    AMBIGUOUS = "the same words ask for something else in another query"
    NOT_HELD_OUT = "training says it in the same way"


class InstructionIndex:
    def __init__(self, known: Collection[Query] = ()) -> None:
        self._goals: dict[tuple[str, ...], str] = {}
        self._splits: dict[str, Split] = {}
        self._trained_texts: set[str] = set()
        self._heldout_texts: set[str] = set()
        self._trained_sentences: set[tuple[str, str]] = set()
        self._heldout_sentences: set[tuple[str, str]] = set()
        for query in known:
            self.add(query)

    def has_goal(self, query: Query) -> bool:
        return query.goal_key() in self._splits

    def novelty_of(self, query: Query) -> Novelty:
        """Compare a query with those of the index, without adding it."""
        text, sentence = query.instruction.casefold(), _sentence(query)
        goal = self._goals.get((query.platform, query.start_state, text))
        if goal is not None:
            return Novelty.REPEATED if goal == query.goal_key() else Novelty.AMBIGUOUS
        if query.split is Split.TRAIN:
            has_words = comparable(text) in self._heldout_texts or sentence in self._heldout_sentences
        else:
            has_words = text in self._trained_texts
        if has_words or self._splits.get(query.goal_key(), query.split) is not query.split:
            return Novelty.REPEATED
        if query.split is Split.HELDOUT_PHRASINGS and sentence in self._trained_sentences:
            return Novelty.NOT_HELD_OUT
        return Novelty.NEW

    def admit(self, query: Query) -> Novelty:
        if (novelty := self.novelty_of(query)) is Novelty.NEW:
            self.add(query)
        return novelty

    def add(self, query: Query) -> None:
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
    GOAL = "goal"
    """Two splits have the same slots and start state of the same task."""
    INSTRUCTION = "instruction"
    PHRASING = "phrasing"
    """Training has a held-out template or clause, or the words of a held-out sentence around other slot values."""
    APP = "app"
    """Training has a held-out app."""
    LINEAGE = "lineage"
    """A training text comes from a query that is not of the training split."""


class Leak(NamedTuple):
    kind: LeakKind
    heldout: str
    """Id of the held-out query, or the name of the held-out app."""
    found_in: str
    detail: str


def has_own_words(query: Query) -> bool:
    """Whether its instruction can be held out; imported tasks share one instruction between many start states."""
    return query.source is not Source.IMPORTED


def comparable(text: str) -> str:
    """Drop case, extra spaces and final punctuation of a text."""
    return " ".join(text.casefold().split()).rstrip(".!? ")


def leaks_in_queries(queries: Sequence[Query], heldout_apps: Collection[str]) -> tuple[Leak, ...]:
    """Find the held-out goals, instructions, phrasings and apps (named as in `Query.apps`) of training queries."""
    leaks: list[Leak] = []

    def found(kind: LeakKind, heldout: str, where: str, detail: str) -> None:
        leaks.append(Leak(kind, heldout, where, detail))

    train = [query for query in queries if query.split is Split.TRAIN]
    heldout = [query for query in queries if query.split is not Split.TRAIN]
    first: dict[str, Query] = {}
    for query in (*train, *heldout):
        other = first.setdefault(query.goal_key(), query)
        if other.split is not query.split:
            detail = f"{query.task}: the same goal in {query.split} and {other.split}"
            found(LeakKind.GOAL, query.query_id, other.query_id, detail)
    trained = {comparable(query.instruction): query.query_id for query in train}
    for query in filter(has_own_words, heldout):
        if where := trained.get(comparable(query.instruction)):
            found(LeakKind.INSTRUCTION, query.query_id, where, f"the same words: {query.instruction}")
    parts = {part: query.query_id for query in train for part in phrasing_parts(query)}
    sentences = {_sentence(query): query.query_id for query in train}
    for query in heldout:
        for part in sorted(heldout_parts(query) & parts.keys()):
            found(LeakKind.PHRASING, query.query_id, parts[part], f"training has the held-out phrasing {part}")
        where = sentences.get(_sentence(query))
        if where and query.split is Split.HELDOUT_PHRASINGS:
            detail = f"training says it in the same way: {query.instruction}"
            found(LeakKind.PHRASING, query.query_id, where, detail)
    for query in train:
        for part in sorted(heldout_parts(query)):
            found(LeakKind.PHRASING, part, query.query_id, "a training query has a phrasing marked as held out")
    for query in train:
        for app in sorted(set(query.apps) & set(heldout_apps)):
            found(LeakKind.APP, app, query.query_id, f"a training query needs the held-out app {app}")
    return tuple(leaks)


def _sentence(query: Query) -> tuple[str, str]:
    """Return the task and the instruction with `_` for the words of its slots; equal for queries of one phrasing."""
    return query.task, blank(query.instruction, (slot.said for slot in query.slots))


HELDOUT_GOALS = (Split.HELDOUT_SLOTS, Split.HELDOUT_PHRASINGS, Split.VALIDATION)
"""The splits that hold out goals of tasks that training has."""
HELDOUT_SHARE = 6
"""Each held-out split gets at most one in six goals of a task."""
SPARE_GOALS = 3
"""Goals for each wanted query of a held-out split; the surplus replaces goals that give no query."""
_REPHRASED = (Split.TRAIN, Split.HELDOUT_APPS, Split.VALIDATION)
_REPHRASINGS = 20


class GoalWithKey(Protocol):
    @property
    def key(self) -> tuple[tuple[str, str], ...]:
        """Pairs of slot and value; equal for goals that ask for the same thing."""
        ...


GoalT = TypeVar("GoalT", bound=GoalWithKey)


def rephrasings(split: Split) -> range:
    """Return the turns of a split: how many instructions one goal may get."""
    return range(_REPHRASINGS if split in _REPHRASED else 1)


def is_held_out_phrasing(split: Split, number: int) -> bool:
    """Whether a candidate gets a phrasing kept from training; of held-out apps every other one does."""
    return split is Split.HELDOUT_PHRASINGS or (split is Split.HELDOUT_APPS and number % 2 == 1)


def share_goals(goals: Sequence[GoalT], wanted: Mapping[Split, int]) -> dict[Split, tuple[GoalT, ...]]:
    """Give each goal of a task to one split; training gets the surplus.

    Training gets the goals in which slot values first appear. The held-out splits get goals whose values training has,
    hence new combinations, if a task has enough slots and goals.
    """
    share = {split: min(wanted[split], len(goals) // HELDOUT_SHARE) for split in HELDOUT_GOALS}
    held_out = sum(share.values())
    seen: set[tuple[str, str]] = set()
    with_new_values: list[GoalT] = []
    others: list[GoalT] = []
    for goal in goals:
        (others if seen.issuperset(goal.key) else with_new_values).append(goal)
        seen.update(goal.key)
    ordered = with_new_values + others
    trained = min(wanted[Split.TRAIN], len(goals) - held_out)
    trained_values = {value for goal in ordered[:trained] for value in goal.key}
    spare = sorted(ordered[trained:], key=lambda goal: len(set(goal.key) - trained_values))
    # Back in drawing order: otherwise the first held-out split would get the most familiar values.
    heldout = iter(sorted(spare[:held_out], key=goals.index))
    shares = {split: tuple(islice(heldout, share[split])) for split in HELDOUT_GOALS}
    return {Split.TRAIN: (*ordered[:trained], *spare[held_out:]), **shares}
