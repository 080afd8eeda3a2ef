"""Chooses the hard queries, which get hints, and the trajectory that each hint is written from (paper 6.4)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from trajmill.schemas.tables.query import Query
from trajmill.stages.curate.history import History

ATTEMPTS_PER_QUERY = 2
"""Guided attempts at one query in a round."""
_HARD_BELOW = 0.25
"""A query is hard while its success average is below this."""


class HardQueries(NamedTuple):
    """The queries to guide, hardest first, and the successes that hints can be written from."""

    queries: tuple[Query, ...]
    own_success: dict[str, str]


def hard_queries(queries: Sequence[Query], history: History, after_failures: int, episodes: int) -> HardQueries:
    """Return the queries with enough failures, a low recent success average, and a success or a path for hints.

    `episodes` is the number of guided episodes of a round, which limits the queries.
    """
    averages = history.averages([query.query_id for query in queries])
    failures, solved = history.failures(), history.shortest_success()
    hard = [
        query
        for query in queries
        if failures.get(query.query_id, 0) >= after_failures
        and averages[query.query_id] < _HARD_BELOW
        and (query.path or query.query_id in solved)
    ]
    ranked = sorted(hard, key=lambda query: (query.query_id in solved, averages[query.query_id], query.query_id))
    return HardQueries(tuple(ranked[: episodes // ATTEMPTS_PER_QUERY]), solved)


def queries_to_walk(hard: HardQueries, walks: Collection[str]) -> list[Query]:
    """Return the hard queries without a success whose annotated path was not walked before."""
    return [
        query
        for query in hard.queries
        if query.path and query.query_id not in hard.own_success and query.query_id not in walks
    ]


class GuidanceSources(NamedTuple):
    by_query: dict[str, str]
    unwritten: tuple[str, ...]
    """Those without guidance yet, sorted."""


def choose_sources(hard: HardQueries, walks: Mapping[str, str], written: Collection[str]) -> GuidanceSources:
    """Choose the policy's own success for each query; without one, the walk of its path from `walks`."""
    shown = {**walks, **hard.own_success}
    by_query = {query.query_id: shown[query.query_id] for query in hard.queries if query.query_id in shown}
    return GuidanceSources(by_query, tuple(sorted(set(by_query.values()) - set(written))))
