"""The query that starts an app for a walk, without instruction and goal."""

from __future__ import annotations

from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Query, Source, Split
from trajmill.stages.graphs.base import AppGraph

_MADE_BY = "graph-1"


def graph_start(graph: AppGraph) -> Query:
    """A query for which a reset brings the app into its start state; it becomes no row."""
    origin = Origin(round=0, run_id="", code_version="")
    return Query(
        query_id=Query.make_id(graph.platform, graph.app, (), graph.start_json, ""),
        platform=graph.platform,
        apps=(graph.app,),
        source=Source.DAG,
        task=graph.app,
        raw_instruction="",
        instruction="",
        phrasing="",
        pages=(),
        page_descriptions=(),
        slots=(),
        path=(),
        start_state=graph.start_json,
        goal="{}",
        difficulty=1,
        max_steps=1,
        split=Split.TRAIN,
        validation="",
        **origin.common(made_by=_MADE_BY),
    )
