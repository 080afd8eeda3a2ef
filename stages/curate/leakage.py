"""Proves that nothing held out reaches training: goals, instruction texts, phrasings, apps, training texts.

A gate: a release is trained on only if `leaks_in_queries` and `leaks_in_texts` find nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from trajmill.schemas.tables.example import Example
from trajmill.schemas.tables.query import Query, Source, Split
from trajmill.schemas.tables.rl_step import RLStep
from trajmill.stages.queries.phrasing import heldout_parts, phrasing_parts, skeleton


class LeakKind(StrEnum):
    """What of a held-out query reached training."""

    GOAL = "goal"
    """The same slots and start state of the same task stand in two splits."""
    INSTRUCTION = "instruction"
    """The same words."""
    PHRASING = "phrasing"
    """A held-out template or clause, or a sentence that differs from a held-out one in its slot values only."""
    APP = "app"
    """An app that training must not see."""
    LINEAGE = "lineage"
    """A training text comes from a query that is not of the training split."""


class Leak(NamedTuple):
    """One held-out thing that training could see."""

    kind: LeakKind
    heldout: str
    """Id of the held-out query, or the name of the held-out app."""
    found_in: str
    """Id of the query or training text that it was found in."""
    detail: str


class TrainingText(NamedTuple):
    """A text that a policy is to be trained on."""

    text_id: str
    query_id: str
    text: str


def example_texts(example: Example) -> Iterator[TrainingText]:
    """The messages of a training example."""
    for message in example.messages:
        yield TrainingText(example.example_id, example.query_id, message.content)


def rl_step_texts(step: RLStep) -> Iterator[TrainingText]:
    """The prompt of a policy-update instance; its group is its query."""
    for message in step.prompt:
        yield TrainingText(step.rl_step_id, step.group, message.content)


def leaks_in_queries(queries: Sequence[Query], heldout_apps: Collection[str]) -> tuple[Leak, ...]:
    """What the splits of a query set share and must not share.

    `heldout_apps` are the apps that training never sees, as they stand in `Query.apps`.
    """
    train = [query for query in queries if query.split is Split.TRAIN]
    heldout = [query for query in queries if query.split is not Split.TRAIN]
    return (
        *_shared_goals(queries),
        *_shared_instructions(train, heldout),
        *_shared_phrasings(train, heldout),
        *_heldout_apps(train, heldout_apps),
    )


def leaks_in_texts(queries: Sequence[Query], texts: Iterable[TrainingText]) -> tuple[Leak, ...]:
    """Training texts that come from, or state, a query that is not of the training split.

    An instruction counts as stated where it fills a line, or the rest of a line behind a colon, as in a prompt.
    """
    train = {query.query_id for query in queries if query.split is Split.TRAIN}
    stated = {_words(q.instruction): q.query_id for q in queries if q.split is not Split.TRAIN and _has_own_words(q)}
    leaks: list[Leak] = []
    seen: set[str] = set()
    for text in texts:
        if text.query_id not in train:
            leaks.append(Leak(LeakKind.LINEAGE, text.query_id, text.text_id, "its query is not in the training split"))
        # The same system message stands in thousands of examples: it is read once.
        if text.text not in seen:
            seen.add(text.text)
            leaks += _stated_in(text, stated)
    return tuple(leaks)


def _shared_goals(queries: Sequence[Query]) -> Iterator[Leak]:
    first: dict[str, Query] = {}
    for query in sorted(queries, key=lambda query: query.split is not Split.TRAIN):
        other = first.setdefault(query.goal_key(), query)
        if other.split is not query.split:
            detail = f"{query.task}: the same goal in {query.split} and {other.split}"
            yield Leak(LeakKind.GOAL, query.query_id, other.query_id, detail)


def _shared_instructions(train: Sequence[Query], heldout: Sequence[Query]) -> Iterator[Leak]:
    trained = {_words(query.instruction): query.query_id for query in train}
    for query in heldout:
        found = trained.get(_words(query.instruction)) if _has_own_words(query) else None
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


def _stated_in(text: TrainingText, stated: Mapping[str, str]) -> Iterator[Leak]:
    # A line of a long history is no instruction: twice the longest leaves room for spacing.
    longest = 2 * max(map(len, stated), default=0)
    for line in text.text.splitlines():
        rest, colon = line, ":"
        while colon:
            found = stated.get(_words(rest)) if len(rest) <= longest else None
            if found is not None:
                yield Leak(LeakKind.INSTRUCTION, found, text.text_id, f"states what is held out: {rest.strip()}")
            _, colon, rest = rest.partition(":")


def _has_own_words(query: Query) -> bool:
    """Whether the words are ours to hold out; an imported page says the same for many start states."""
    return query.source is not Source.IMPORTED


def _words(text: str) -> str:
    """What counts as the same words: case, spacing and marks at the end do not."""
    return " ".join(text.casefold().split()).rstrip(".!? ")
