"""Finds what training queries share with held-out ones: goals, instructions, phrasings and apps."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from trajmill.schemas.tables.query import Query, Source, Split
from trajmill.stages.queries.phrasing import heldout_parts, phrasing_parts, skeleton


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
    """One held-out query or app that training could see."""

    kind: LeakKind
    heldout: str
    """Id of the held-out query, or the name of the held-out app."""
    found_in: str
    """Id of the query or training text that it was found in."""
    detail: str


def leaks_in_queries(queries: Sequence[Query], heldout_apps: Collection[str]) -> tuple[Leak, ...]:
    """Find the held-out goals, instructions, phrasings and apps that training queries have.

    `heldout_apps` are the apps that training never sees, named as in `Query.apps`.
    """
    train = [query for query in queries if query.split is Split.TRAIN]
    heldout = [query for query in queries if query.split is not Split.TRAIN]
    return (
        *_shared_goals(queries),
        *_shared_instructions(train, heldout),
        *_shared_phrasings(train, heldout),
        *_heldout_apps(train, heldout_apps),
    )


def has_own_words(query: Query) -> bool:
    """Whether its instruction can be held out. Imported tasks share one instruction between many start states."""
    return query.source is not Source.IMPORTED


def comparable(text: str) -> str:
    """A text without case, extra spaces and final punctuation, for comparison."""
    return " ".join(text.casefold().split()).rstrip(".!? ")


def _shared_goals(queries: Sequence[Query]) -> Iterator[Leak]:
    first: dict[str, Query] = {}
    for query in sorted(queries, key=lambda query: query.split is not Split.TRAIN):
        other = first.setdefault(query.goal_key(), query)
        if other.split is not query.split:
            detail = f"{query.task}: the same goal in {query.split} and {other.split}"
            yield Leak(LeakKind.GOAL, query.query_id, other.query_id, detail)


def _shared_instructions(train: Sequence[Query], heldout: Sequence[Query]) -> Iterator[Leak]:
    trained = {comparable(query.instruction): query.query_id for query in train}
    for query in heldout:
        found = trained.get(comparable(query.instruction)) if has_own_words(query) else None
        if found is not None:
            yield Leak(LeakKind.INSTRUCTION, query.query_id, found, f"the same words: {query.instruction}")


def _shared_phrasings(train: Sequence[Query], heldout: Sequence[Query]) -> Iterator[Leak]:
    parts = {part: query.query_id for query in train for part in phrasing_parts(query)}
    sentences = {(query.task, skeleton(query)): query.query_id for query in train}
    for query in heldout:
        for part in sorted(heldout_parts(query)):
            if part in parts:
                yield Leak(LeakKind.PHRASING, query.query_id, parts[part], f"training has the held-out phrasing {part}")
        sentence = (query.task, skeleton(query))
        if query.split is Split.HELDOUT_PHRASINGS and sentence in sentences:
            detail = f"training says it in the same way: {query.instruction}"
            yield Leak(LeakKind.PHRASING, query.query_id, sentences[sentence], detail)
    for query in train:
        for part in sorted(heldout_parts(query)):
            yield Leak(LeakKind.PHRASING, part, query.query_id, "a training query has a phrasing marked as held out")


def _heldout_apps(train: Sequence[Query], heldout_apps: Collection[str]) -> Iterator[Leak]:
    for query in train:
        for app in sorted(set(query.apps) & set(heldout_apps)):
            yield Leak(LeakKind.APP, app, query.query_id, f"a training query needs the held-out app {app}")
