"""Refuses proposed tasks that leak held-out queries, because one leak would make a whole release unusable."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence

from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Query, Source, Split
from trajmill.stages.curate.leaks import TrainingText, leaks_in_texts
from trajmill.stages.queries.base import NewQueries, failure
from trajmill.stages.queries.leaks import leaks_in_queries
from trajmill.stages.queries.proposals.starts import STAGE


def without_leaks(
    made: NewQueries, existing: Sequence[Query], heldout_apps: Collection[str], origin: Origin
) -> NewQueries:
    """Keep the proposals that training may see; the others become failures.

    Args:
        made: tasks of the training split, and what was refused before.
        existing: all queries of the run, of every split.
        heldout_apps: apps that training never sees.
        origin: common columns of failures.
    """
    reasons = dict(_leaks(made.queries, existing, heldout_apps))
    kept = tuple(query for query in made.queries if query.query_id not in reasons)
    refused = tuple(
        failure(
            query.query_id,
            f"{query.source}: training must not see it: {reasons[query.query_id]}",
            origin,
            query.made_by,
            stage=STAGE,
        )
        for query in made.queries
        if query.query_id in reasons
    )
    return NewQueries(kept, (*made.failures, *refused))


def _leaks(
    proposed: Sequence[Query], existing: Sequence[Query], heldout_apps: Collection[str]
) -> Iterator[tuple[str, str]]:
    """The id of each proposal that leaks, with the reason."""
    queries = [*existing, *proposed]
    texts = [TrainingText(query.query_id, query.query_id, query.instruction) for query in proposed]
    for leak in (*leaks_in_queries(queries, heldout_apps), *leaks_in_texts(queries, texts)):
        yield leak.found_in, leak.detail
    heldout = _heldout_starts(existing)
    for query in proposed:
        if _state(query) in heldout:
            yield query.query_id, "it begins like a held-out task"


def _heldout_starts(queries: Sequence[Query]) -> frozenset[str]:
    """Start states that only held-out queries have. Imported tasks are held out by their start state."""
    imported = [query for query in queries if query.source is Source.IMPORTED]
    trained = {_state(query) for query in imported if query.split is Split.TRAIN}
    return frozenset(_state(query) for query in imported if query.split is not Split.TRAIN) - trained - {"{}"}


def _state(query: Query) -> str:
    return json.dumps(json.loads(query.start_state), sort_keys=True)
