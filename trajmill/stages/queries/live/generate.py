"""Makes a query set from the graphs of live apps; each query's path is really walked (GUI-Owl 6.2, step 5)."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.graphs.base import AppGraph
from trajmill.stages.queries.live.divide import LiveCandidate, UnseenApps, candidates
from trajmill.stages.queries.live.drafting import draft_live
from trajmill.stages.queries.live.filling import SplitFilling, WalkQueries
from trajmill.stages.queries.live.spec import LiveQueriesSpec
from trajmill.stages.queries.live.wording import LiveGrammar, LiveWriter
from trajmill.stages.queries.new_queries import NewQueries


class LiveRequest(NamedTuple):
    """What is wanted."""

    graphs: tuple[AppGraph, ...]
    settings: LiveQueriesSpec
    unseen: UnseenApps
    seed: int
    """Decides on the values and on the wording."""


async def generate_live(request: LiveRequest, writer: LiveWriter, walk: WalkQueries, origin: Origin) -> NewQueries:
    """Make the queries of all splits; each has been walked, meets its goal, and does not meet it at the start.

    The grammar writes the queries for which the drafts of another writer are refused; the refusal is a failure.

    Args:
        request: the graphs, and how many queries.
        writer: the grammar or a language model.
        walk: walks the paths of queries.
        origin: common columns of the rows.
    """
    drafts = [partial(drafted, each, request.seed, origin) for each in dict.fromkeys((writer, LiveGrammar()))]
    filling = SplitFilling(drafts, walk, writer.version, origin)
    wanted = {split: request.settings.wanted(split) for split in Split}
    for split, found in candidates(request.graphs, wanted, request.unseen, request.seed).items():
        await filling.fill(split, wanted[split], found)
    return filling.without_leaks(request.unseen.heldout)


async def drafted(writer: LiveWriter, run_seed: int, origin: Origin, candidate: LiveCandidate) -> Query:
    """Write the query of a candidate; raises as `draft_live`."""
    sample, split, heldout, turn = candidate
    seed = int(content_id("live", run_seed, sample.task, sample.key, split, turn), 16)
    return await draft_live(sample, split, heldout, writer, origin, seed)
