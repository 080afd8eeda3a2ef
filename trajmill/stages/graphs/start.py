"""The query that starts an app for a walk."""

from __future__ import annotations

from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Query, Source
from trajmill.stages.environments.tasks import bare_query
from trajmill.stages.graphs.base import AppGraph

_NO_ROW = Origin(round=0, run_id="", code_version="")


def graph_start(graph: AppGraph) -> Query:
    """A query for which a reset brings the app into its start state; it becomes no row."""
    return bare_query(graph.platform, graph.app, graph.start_json, Source.DAG, _NO_ROW, made_by="graph-1")
