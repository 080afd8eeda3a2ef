"""Refuses proposed tasks that leak held-out queries: one leak would make a whole release unusable."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Query, Source, Split
from trajmill.stages.curate.leaks import TrainingText, leaks_in_texts
from trajmill.stages.queries.base import NewQueries, failure
from trajmill.stages.queries.leaks import leaks_in_queries
from trajmill.stages.queries.proposals.source import STAGE


def without_leaks(
    made: NewQueries, existing: Sequence[Query], heldout_apps: Collection[str], origin: Origin
) -> NewQueries:
    """Keep the proposals that training may use; the others become failures."""
    queries = [*existing, *made.queries]
    texts = [TrainingText(query.query_id, query.query_id, query.instruction) for query in made.queries]
    leaks = (*leaks_in_queries(queries, heldout_apps), *leaks_in_texts(queries, texts))
    reasons = {leak.found_in: leak.detail for leak in leaks}
    # Imported tasks are held out by their start state.
    imported = [query for query in existing if query.source is Source.IMPORTED]
    trained = {_state(query) for query in imported if query.split is Split.TRAIN}
    heldout = {_state(query) for query in imported if query.split is not Split.TRAIN} - trained - {"{}"}
    reasons |= {query.query_id: "it begins like a held-out task" for query in made.queries if _state(query) in heldout}
    kept = tuple(query for query in made.queries if query.query_id not in reasons)
    refused = []
    for query in made.queries:
        if query.query_id in reasons:
            text = f"{query.source}: training must not see it: {reasons[query.query_id]}"
            refused.append(failure(query.query_id, text, origin, query.made_by, stage=STAGE))
    return NewQueries(kept, (*made.failures, *refused))


def _state(query: Query) -> str:
    return json.dumps(json.loads(query.start_state), sort_keys=True)
