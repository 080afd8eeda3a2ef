"""The query that starts a walk; it names the program and its start state for a reset."""

from __future__ import annotations

from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Query, Source, Split
from trajmill.stages.queries.pathways.base import PathwayProgram


def start_query(program: PathwayProgram, origin: Origin) -> Query:
    """A query without instruction and goal; a reset for it brings the program into its start state."""
    return Query(
        query_id=Query.make_id(program.platform, program.name, (), program.start_state, ""),
        platform=program.platform,
        apps=(program.name,),
        source=Source.PATHWAY,
        task=program.name,
        raw_instruction="",
        instruction="",
        phrasing="",
        pages=(),
        page_descriptions=(),
        slots=(),
        path=(),
        start_state=program.start_state,
        goal="{}",
        difficulty=1,
        max_steps=1,
        split=Split.TRAIN,
        validation="",
        **origin.common(made_by="deep-search"),
    )
