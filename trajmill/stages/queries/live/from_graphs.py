"""Makes queries from the graphs of live apps in the environment of a run."""

from __future__ import annotations

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.stages.graphs.file import read_graph
from trajmill.stages.queries.graph.from_world import WriterModel
from trajmill.stages.queries.graph.model_writer import ModelWriter
from trajmill.stages.queries.live.divide import UnseenApps
from trajmill.stages.queries.live.generate import LiveRequest, generate_live
from trajmill.stages.queries.live.spec import LiveQueriesSpec
from trajmill.stages.queries.live.walking import QueryWalker
from trajmill.stages.queries.live.wording import LiveGrammar, LiveWriter
from trajmill.stages.queries.new_queries import NewQueries


async def queries_from_graphs(
    settings: LiveQueriesSpec,
    unseen: UnseenApps,
    environment: EnvironmentSpec,
    instances: int,
    seed: int,
    origin: Origin,
    model: WriterModel | None = None,
) -> NewQueries:
    """Make validated queries of all splits; a language model writes them, or the grammar if there is none.

    Args:
        settings: the files of the graphs, and how many queries.
        unseen: apps that training never sees.
        environment: where the queries are walked.
        instances: environments that walk at the same time.
        seed: decides on the values and on the wording.
        origin: common columns of the rows.
        model: the language model.

    Raises:
        BadInputError: a file is no graph, or the model cannot be connected.
    """
    request = LiveRequest(tuple(map(read_graph, settings.files)), settings, unseen, seed)
    if not request.graphs:
        raise BadInputError("graphs.files is missing: name the files of the apps' graphs (see graphs.md)")
    walker = QueryWalker(environment, instances, origin)
    calls: list[ModelCall] = []
    opened = model.model.open(origin, calls.append) if model else None
    try:
        writer: LiveWriter = ModelWriter(opened, model.prompts) if opened and model else LiveGrammar()
        made = await generate_live(request, writer, walker.walk, origin)
    finally:
        await walker.close()
        if opened is not None:
            await opened.close()
    return made._replace(model_calls=tuple(calls))
