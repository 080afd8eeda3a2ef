"""The query that starts a walk; it names the program and its start state for a reset."""

from __future__ import annotations

from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Query, Source
from trajmill.stages.environments.tasks import bare_query
from trajmill.stages.queries.pathways.base import PathwayProgram


def start_query(program: PathwayProgram, origin: Origin) -> Query:
    """A query without instruction and goal; a reset for it brings the program into its start state."""
    return bare_query(
        program.platform, program.name, program.start_state, Source.PATHWAY, origin, made_by="deep-search"
    )
