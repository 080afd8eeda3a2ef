"""The start of a walk as a query: what a reset needs to be told."""

from __future__ import annotations

from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Query, Source, Split
from trajmill.stages.queries.pathways.base import Program


def start_query(program: Program, origin: Origin) -> Query:
    """A query that asks for nothing: it brings a program into its start state, and has no goal."""
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
