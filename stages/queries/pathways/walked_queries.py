"""Makes queries from pathways, and walks them in the environment of the run."""

from __future__ import annotations

from collections.abc import Sequence

from trajmill.schemas.record import Origin
from trajmill.schemas.tables.pathway import Pathway
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.stages.queries.new_queries import NewQueries
from trajmill.stages.queries.pathways.base import PathwayProgram
from trajmill.stages.queries.pathways.collect import CollectedPathways, make_queries
from trajmill.stages.queries.pathways.queries import PathwaySettings


async def queries_from_pathways(
    pathways: Sequence[Pathway],
    programs: Sequence[PathwayProgram],
    settings: PathwaySettings,
    environment: EnvironmentSpec,
    instances: int,
    seed: int,
    origin: Origin,
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
    """
    made = NewQueries(())
    for platform in dict.fromkeys(program.platform for program in programs):
        on_platform = [program for program in programs if program.platform is platform]
        found = tuple(pathway for pathway in pathways if pathway.platform is platform)
        factory = environment.factory(platform)
        try:
            new = await make_queries(
                factory, CollectedPathways(found, (), (), {}, {}), on_platform, settings, seed, origin, instances
            )
        finally:
            await factory.close()
        made = made.with_more(NewQueries(new.queries, new.failures))
    return made
