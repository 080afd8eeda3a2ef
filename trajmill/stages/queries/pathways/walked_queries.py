"""Makes queries from pathways, and walks them in the environment of the run."""

from __future__ import annotations

from collections.abc import Sequence

from trajmill.schemas.record import Origin
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.pathway import Pathway
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.stages.queries.graph.from_world import WriterModel
from trajmill.stages.queries.graph.model_writer import ModelWriter
from trajmill.stages.queries.new_queries import NewQueries
from trajmill.stages.queries.pathways.base import PathwayProgram
from trajmill.stages.queries.pathways.collect import CollectedPathways, make_queries
from trajmill.stages.queries.pathways.model_wording import ModelPathwayWriter
from trajmill.stages.queries.pathways.queries import PathwaySettings
from trajmill.stages.queries.pathways.wording import PathwayGrammar, PathwayWriter


async def queries_from_pathways(
    pathways: Sequence[Pathway],
    programs: Sequence[PathwayProgram],
    settings: PathwaySettings,
    environment: EnvironmentSpec,
    instances: int,
    seed: int,
    origin: Origin,
    model: WriterModel | None = None,
) -> NewQueries:
    """Make queries of all splits; each was walked in the environment and meets its goal.

    Args:
        pathways: the pathways of the programs.
        programs: the programs that were walked.
        settings: how many queries, and what is held out.
        environment: where the queries are walked.
        instances: environments that work at the same time.
        seed: decides between phrasings.
        origin: common columns of the rows.
        model: the language model that writes the instructions; the grammar without one.

    Raises:
        BadInputError: the model cannot be connected.
    """
    calls: list[ModelCall] = []
    opened = model.model.open(origin, calls.append) if model else None
    writer = ModelPathwayWriter(ModelWriter(opened, model.prompts)) if opened and model else PathwayGrammar()
    try:
        made = await _on_platforms(pathways, programs, settings, environment, instances, seed, origin, writer)
    finally:
        if opened is not None:
            await opened.close()
    return made.with_more(NewQueries((), (), tuple(calls)))


async def _on_platforms(
    pathways: Sequence[Pathway],
    programs: Sequence[PathwayProgram],
    settings: PathwaySettings,
    environment: EnvironmentSpec,
    instances: int,
    seed: int,
    origin: Origin,
    writer: PathwayWriter,
) -> NewQueries:
    made = NewQueries(())
    for platform in dict.fromkeys(program.platform for program in programs):
        on_platform = [program for program in programs if program.platform is platform]
        found = tuple(pathway for pathway in pathways if pathway.platform is platform)
        factory = environment.factory(platform)
        try:
            new = await make_queries(
                factory,
                CollectedPathways(found, (), (), {}, {}),
                on_platform,
                settings,
                seed,
                origin,
                instances,
                writer,
            )
        finally:
            await factory.close()
        made = made.with_more(NewQueries(new.queries, new.failures))
    return made
