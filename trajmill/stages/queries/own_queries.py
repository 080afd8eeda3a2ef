"""The queries that an environment brings along, without those that are done before they begin."""

from __future__ import annotations

from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.stages.queries.new_queries import NewQueries
from trajmill.stages.queries.real_walk import check_starts

_STAGE = "generate"


async def own_queries(environment: EnvironmentSpec, seed: int, instances: int, origin: Origin) -> NewQueries:
    """An environment's own queries; the goals of a user's tasks are checked once in their start states.

    Args:
        environment: whose queries.
        seed: seed of the run.
        instances: environments that check start states at the same time.
        origin: common columns of the rows.

    Raises:
        BadInputError: a file of tasks, or the name of a task, is wrong.
        EnvironmentFailure: something that the tasks need is not installed or does not start.
    """
    made = await environment.own_queries(seed, origin)
    checked = NewQueries((), tuple(made.failures))
    for platform in Platform:
        of_platform = tuple(query for query in made.queries if query.platform is platform)
        with_goal = [query for query in of_platform if query.goal != "{}"] if made.untried else []
        if not with_goal:
            checked = checked.with_more(NewQueries(of_platform))
            continue
        factory = environment.factory(platform)
        try:
            tried = await check_starts(factory, with_goal, _STAGE, origin, instances)
        finally:
            await factory.close()
        refused = {failure.input_id for failure in tried.failures}
        kept = tuple(query for query in of_platform if query.query_id not in refused)
        checked = checked.with_more(NewQueries(kept, tried.failures))
    return checked
