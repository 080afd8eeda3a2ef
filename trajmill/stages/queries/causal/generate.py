"""Makes causal pathways in the environment of a run; each one is really walked."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.environments.devices.spec import DevicesTogetherSpec
from trajmill.stages.environments.simulated.spec import RunsApps
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.stages.graphs.base import AppGraph
from trajmill.stages.graphs.file import read_graph
from trajmill.stages.graphs.from_simulated import graph_of_app
from trajmill.stages.queries.causal.drafting import draft_pathway
from trajmill.stages.queries.causal.drawing import DrawingRules, DrawnPathway, drawn_pathways
from trajmill.stages.queries.causal.nodes import AtomicTasks, atomic_tasks
from trajmill.stages.queries.causal.spec import CausalSpec
from trajmill.stages.queries.causal.wording import CausalGrammar, CausalModelWriter, CausalWriter
from trajmill.stages.queries.graph.from_world import WriterModel
from trajmill.stages.queries.graph.model_writer import ModelWriter
from trajmill.stages.queries.live.divide import UnseenApps
from trajmill.stages.queries.live.filling import SplitFilling, WalkQueries
from trajmill.stages.queries.live.walking import QueryWalker
from trajmill.stages.queries.new_queries import NewQueries


class CausalRequest(NamedTuple):
    """What is wanted."""

    tasks: AtomicTasks
    settings: CausalSpec
    rules: DrawingRules


async def causal_pathways(
    settings: CausalSpec,
    unseen: UnseenApps,
    environment: EnvironmentSpec,
    instances: int,
    seed: int,
    origin: Origin,
    model: WriterModel | None = None,
) -> NewQueries:
    """Make validated causal pathways of all splits; a language model writes them, or the grammar if there is none.

    Args:
        settings: the files of graphs, and how many pathways of which level.
        unseen: apps that training never sees.
        environment: where the pathways are walked; its simulated apps are used, too.
        instances: environments that walk at the same time.
        seed: decides on the pathways and on the wording.
        origin: common columns of the rows.
        model: the language model.

    Raises:
        BadInputError: a file is no graph, the graphs offer no pathway, or the model cannot be connected.
    """
    request = CausalRequest(
        atomic_tasks(graphs_of(settings, environment)),
        settings,
        DrawingRules(settings.level_weights, unseen, isinstance(environment, DevicesTogetherSpec), seed),
    )
    walker = QueryWalker(environment, instances, origin)
    calls: list[ModelCall] = []
    opened = model.model.open(origin, calls.append) if model else None
    try:
        own = [CausalModelWriter(ModelWriter(opened, model.prompts))] if opened and model else []
        made = await generate_pathways(request, [*own, CausalGrammar()], walker.walk, origin)
    finally:
        await walker.close()
        if opened is not None:
            await opened.close()
    return made._replace(model_calls=tuple(calls))


async def generate_pathways(
    request: CausalRequest, writers: Sequence[CausalWriter], walk: WalkQueries, origin: Origin
) -> NewQueries:
    """Make the pathways of all splits; each has been walked, meets its goal, and does not meet it at the start.

    Args:
        request: the atomic tasks, and how many pathways.
        writers: the next one is asked where the draft of one is refused.
        walk: walks the paths of queries.
        origin: common columns of the rows.

    Raises:
        BadInputError: the graphs offer no pathway.
    """
    tasks, settings, rules = request
    if not (tasks.reading and tasks.writing):
        missing = "answer that can be looked up" if tasks.writing else "field that can be filled"
        raise BadInputError(f"causal: the graphs have no {missing}; see `answers` in causal.md")
    drafts = [partial(drafted_pathway, each, rules, origin) for each in writers]
    filling = SplitFilling(drafts, walk, writers[0].version, origin)
    for split in Split:
        await filling.fill(split, settings.wanted(split), drawn_pathways(tasks, split, rules))
    return filling.without_leaks(rules.unseen.heldout)


async def drafted_pathway(writer: CausalWriter, rules: DrawingRules, origin: Origin, drawn: DrawnPathway) -> Query:
    """Write the query of a pathway; raises as `draft_pathway`."""
    seed = int(content_id("causal", rules.seed, drawn.task, drawn.pathway.key, drawn.split), 16)
    return await draft_pathway(drawn, writer, rules.several_devices, origin, seed)


def graphs_of(settings: CausalSpec, environment: EnvironmentSpec) -> tuple[AppGraph, ...]:
    """The graphs of the files, and those of the environment's simulated apps."""
    apps = environment.described_apps() if isinstance(environment, RunsApps) else ()
    return (*map(read_graph, settings.files), *map(graph_of_app, apps))
