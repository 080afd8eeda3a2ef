"""Chooses for each hard query the trajectory that its hints are written from (paper 6.4)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from trajmill.schemas.tables.query import Query
from trajmill.stages.guidance.hard_queries import HardQueries


class GuidanceSources(NamedTuple):
    """The trajectories that hints are written from."""

    by_query: dict[str, str]
    """By query id, the id of a trajectory."""
    unwritten: tuple[str, ...]
    """Those of the trajectories that have no guidance yet, sorted."""


def queries_to_walk(hard: HardQueries, walks: Collection[str]) -> list[Query]:
    """The hard queries whose annotated path must be walked, because nothing else shows how they are solved.

    Args:
        hard: the hard queries.
        walks: ids of the queries whose path was walked before.
    """
    return [
        query
        for query in hard.queries
        if query.path and query.query_id not in hard.own_success and query.query_id not in walks
    ]


def choose_sources(hard: HardQueries, walks: Mapping[str, str], written: Collection[str]) -> GuidanceSources:
    """Choose the policy's own success for each query; without one, the walk of the annotated path.

    Args:
        hard: the hard queries.
        walks: by query id, the trajectory that walks its annotated path.
        written: trajectories that have guidance.
    """
    by_query = {}
    for query in hard.queries:
        source = hard.own_success.get(query.query_id) or walks.get(query.query_id)
        if source:
            by_query[query.query_id] = source
    return GuidanceSources(by_query, tuple(sorted(set(by_query.values()) - set(written))))
