"""A query that only starts an app."""

from __future__ import annotations

from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Platform, Query, Source, Split


def bare_query(platform: Platform, name: str, start_state: str, source: Source, origin: Origin, made_by: str) -> Query:
    """A query without instruction and goal; a reset for it brings an app or program into its start state.

    Args:
        platform: of the app.
        name: of the app.
        start_state: as the environment's reset takes it.
        source: what a walk from there is for.
        origin: of the row, if it becomes one.
        made_by: who made it.
    """
    return Query(
        query_id=Query.make_id(platform, name, (), start_state, ""),
        platform=platform,
        apps=(name,),
        source=source,
        task=name,
        raw_instruction="",
        instruction="",
        phrasing="",
        pages=(),
        page_descriptions=(),
        slots=(),
        path=(),
        start_state=start_state,
        goal="{}",
        difficulty=1,
        max_steps=1,
        split=Split.TRAIN,
        validation="",
        **origin.common(made_by=made_by),
    )
