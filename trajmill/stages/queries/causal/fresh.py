"""Adds new causal pathways to the training queries of a run."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.environments.devices.spec import DevicesTogetherSpec
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.stages.queries.causal.drawing import DrawingRules, drawn_pathways
from trajmill.stages.queries.causal.generate import drafted_pathway, graphs_of
from trajmill.stages.queries.causal.nodes import atomic_tasks
from trajmill.stages.queries.causal.spec import CausalSpec
from trajmill.stages.queries.causal.wording import CausalGrammar
from trajmill.stages.queries.graph.fresh import FreshRequest
from trajmill.stages.queries.live.divide import UnseenApps
from trajmill.stages.queries.live.fresh import fresh_walked
from trajmill.stages.queries.live.walking import QueryWalker


async def fresh_pathways(
    settings: CausalSpec,
    unseen: UnseenApps,
    environment: EnvironmentSpec,
    instances: int,
    seed: int,
    known: Collection[Query],
    request: FreshRequest,
    origin: Origin,
) -> tuple[Query, ...]:
    """New pathways, at most `request.wanted`; each has been walked, and begins with no item that is held out.

    Args:
        settings: the files of graphs, and the levels.
        unseen: apps that training never sees.
        environment: where the pathways are walked.
        instances: environments that walk at the same time.
        seed: seed of the run, which decided what is held out.
        known: all queries of the run.
        request: how many, and how hard.
        origin: common columns of the rows.

    Raises:
        BadInputError: a file is no graph.
    """
    rules = DrawingRules(
        settings.level_weights, unseen, isinstance(environment, DevicesTogetherSpec), seed, request.seed
    )
    found = drawn_pathways(atomic_tasks(graphs_of(settings, environment)), Split.TRAIN, rules)
    walker = QueryWalker(environment, instances, origin)
    try:
        draft = partial(drafted_pathway, CausalGrammar(), rules, origin)
        return await fresh_walked(found, draft, walker.walk, known, request)
    finally:
        await walker.close()
