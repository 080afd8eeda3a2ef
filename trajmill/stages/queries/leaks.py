"""Keeps splits apart: repeated queries, and what training shares with held-out queries."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
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


class LeakIndex:
    """Queries, to find what another one shares with those of other splits."""

    def __init__(self, known: Collection[Query] = ()) -> None:
        self._goal_of: dict[tuple[str, ...], str] = {}
        self._first: dict[str, Query] = {}
        self._with_words: dict[tuple[bool, object], Query] = {}
        for query in known:
            self.add(query)

    def has_goal(self, query: Query) -> bool:
        return query.goal_key() in self._first

    def admit(self, query: Query) -> Novelty:
        """Compare a query with those of the index, and add it if it is new."""
        goal = self._goal_of.get((query.platform, query.start_state, query.instruction.casefold()))
        if goal is not None:
            return Novelty.REPEATED if goal == query.goal_key() else Novelty.AMBIGUOUS
        kinds = {leak.kind for leak in self.leaks_of(query)}
        if kinds == {LeakKind.PHRASING} and query.split is not Split.TRAIN:
            return Novelty.NOT_HELD_OUT
        if kinds:
            return Novelty.REPEATED
        self.add(query)
        return Novelty.NEW

    def add(self, query: Query) -> None:
        self._goal_of[query.platform, query.start_state, query.instruction.casefold()] = query.goal_key()
        self._first.setdefault(query.goal_key(), query)
        for _, words, _ in _kept_apart(query):
            self._with_words[query.split is Split.TRAIN, words] = query

    def leaks_of(self, query: Query) -> Iterator[Leak]:
        other, is_trained = self._first.get(query.goal_key(), query), query.split is Split.TRAIN
        if other.split is not query.split and not _may_share_goal(query, other):
            detail = f"{query.task}: the same goal in {query.split} and {other.split}"
            yield Leak(LeakKind.GOAL, query.query_id, other.query_id, detail)
        for kind, words, detail in _kept_apart(query):
            if found := self._with_words.get((not is_trained, words)):
                heldout, trained = (found, query) if is_trained else (query, found)
                yield Leak(kind, heldout.query_id, trained.query_id, detail)


def _may_share_goal(first: Query, second: Query) -> bool:
    """Whether one is for training, and the other one for validation in words that are held out."""
    by_split = {query.split: query for query in (first, second)}
    validation = by_split.get(Split.VALIDATION)
    return validation is not None and Split.TRAIN in by_split and bool(heldout_parts(validation))


def _kept_apart(query: Query) -> Iterator[tuple[LeakKind, object, str]]:
    """Yield what a query must not share with training, or a training query with the others, and how to say it."""
    is_trained = query.split is Split.TRAIN
    if is_trained or has_own_words(query):
        yield LeakKind.INSTRUCTION, comparable(query.instruction), f"the same words: {query.instruction}"
    for part in sorted(phrasing_parts(query) if is_trained else heldout_parts(query)):
        yield LeakKind.PHRASING, (part,), f"training has the held-out phrasing {part}"
    if is_trained or query.split is Split.HELDOUT_PHRASINGS:
        # Equal for queries of one phrasing: the instruction with `_` for the words of its slots.
        sentence = query.task, blank(query.instruction, (slot.said for slot in query.slots))
        yield LeakKind.PHRASING, sentence, f"training says it in the same way: {query.instruction}"


def has_own_words(query: Query) -> bool:
    """Whether its instruction can be held out; imported tasks share one instruction between many start states."""
    return query.source is not Source.IMPORTED


def comparable(text: str) -> str:
    """Drop case, extra spaces and final punctuation of a text."""
    return " ".join(text.casefold().split()).rstrip(".!? ")


def leaks_in_queries(queries: Sequence[Query], heldout_apps: Collection[str]) -> tuple[Leak, ...]:
    """Find the held-out goals, instructions, phrasings and apps (named as in `Query.apps`) of training queries."""
    train = [query for query in queries if query.split is Split.TRAIN]
    index, leaks = LeakIndex(train), list[Leak]()
    for query in (query for query in queries if query.split is not Split.TRAIN):
        leaks += index.leaks_of(query)
        index.add(query)
    for query in train:
        for part in sorted(heldout_parts(query)):
            detail = "a training query has a phrasing marked as held out"
            leaks.append(Leak(LeakKind.PHRASING, part, query.query_id, detail))
        for app in sorted(set(query.apps) & set(heldout_apps)):
            leaks.append(Leak(LeakKind.APP, app, query.query_id, f"a training query needs the held-out app {app}"))
    return tuple(leaks)


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
