"""Pages of attempts, and how many attempts have each value of each filter."""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal

from pydantic import Field

from trajmill.flows.viewer.catalogue import Catalogue
from trajmill.flows.viewer.filters import FACETS, LISTS, NUMBERS, AttemptFilter, Condition
from trajmill.schemas.record import Record

PAGE_ROWS: Final = 50
Order = Literal["newest", "oldest", "longest", "shortest", "slowest"]
_KEYS: dict[Order, tuple[str, bool]] = {
    "newest": ("place", True),
    "oldest": ("place", False),
    "longest": ("steps", True),
    "shortest": ("steps", False),
    "slowest": ("wall_ms", True),
}
"""The column of each order, and whether it falls."""
_MOST_VALUES = 200


class PageRequest(AttemptFilter):
    """Which page of which attempts; places of a page are those of the row before it, so that new rows shift nothing."""

    order: Order = "newest"
    after: int | None = Field(default=None, ge=0)
    """Place of the last row of the page before."""
    before: int | None = Field(default=None, ge=0)
    """Place of the first row of the page after."""
    limit: int = Field(default=PAGE_ROWS, ge=1, le=500)


class AttemptRow(Record):
    """One attempt in a list."""

    place: int
    """Number of the attempt, in the order in which they landed."""
    run_id: str
    trajectory_id: str
    query_id: str
    round: int
    purpose: str
    split: str | None
    task: str | None
    apps: list[str]
    platform: str | None
    difficulty: int | None
    instruction: str
    agent: str
    model_version: str
    guidance_id: str | None
    outcome: str
    judged: str
    disagreement: list[str]
    stop_reason: str
    failure_class: str | None
    failure_message: str | None
    steps: int
    wall_ms: float
    written_at: datetime | None


class AttemptPage(Record):
    """Some attempts in order."""

    rows: list[AttemptRow]
    total: int
    """Attempts that match, on all pages."""
    first: bool
    """Whether no row comes before these."""
    last: bool
    """Whether no row comes after these."""


class FacetValue(Record):
    """A value of a filter and the number of attempts that have it, among those that match the other filters."""

    value: str | int
    attempts: int


def attempt_page(catalogue: Catalogue, wanted: PageRequest) -> AttemptPage:
    """A page of the attempts that match."""
    found = wanted.condition()
    column, falls = _KEYS[wanted.order]
    backwards = wanted.before is not None
    at = wanted.before if backwards else wanted.after
    order = "DESC" if falls is not backwards else "ASC"
    condition = found if at is None else _beyond(catalogue, found, column, order, at)
    rows = catalogue.ask(
        f"SELECT {', '.join(AttemptRow.model_fields)} FROM attempts WHERE {condition.sql} "
        f"ORDER BY {column} {order}, place {order} LIMIT ?",
        [*condition.parameters, wanted.limit + 1],
    )
    more = len(rows) > wanted.limit
    shown = [AttemptRow.model_validate(row) for row in rows[: wanted.limit]]
    total = catalogue.ask(f"SELECT count(*) AS n FROM attempts WHERE {found.sql}", found.parameters)[0]["n"]
    return AttemptPage(
        rows=shown[::-1] if backwards else shown,
        total=total,
        first=not more if backwards else at is None,
        last=not backwards and not more,
    )


def _beyond(catalogue: Catalogue, found: Condition, column: str, order: str, place: int) -> Condition:
    """The attempts after the one at a place; none if there is none."""
    rows = catalogue.ask(f"SELECT {column} AS key FROM attempts WHERE place = ?", [place])
    if not rows:
        return Condition("false", [])
    key, sign = rows[0]["key"], "<" if order == "DESC" else ">"
    beyond = f"({column} {sign} ? OR ({column} = ? AND place {sign} ?))"
    return Condition(f"{found.sql} AND {beyond}", [*found.parameters, key, key, place])


def facets(catalogue: Catalogue, wanted: AttemptFilter) -> dict[str, list[FacetValue]]:
    """The values of each filter, the most frequent ones first, and numbers in their order."""
    found: dict[str, list[FacetValue]] = {name: [] for name in FACETS}
    statement = _facet_statement(wanted)
    for row in catalogue.ask(statement.sql, statement.parameters):
        value = int(row["value"]) if row["facet"] in NUMBERS else row["value"]
        found[row["facet"]].append(FacetValue(value=value, attempts=row["attempts"]))
    return {name: sorted(values, key=_number) if name in NUMBERS else values for name, values in found.items()}


def _facet_statement(wanted: AttemptFilter) -> Condition:
    """Counts for all filters at once, so that each condition is looked at once for each attempt."""
    text, chosen = wanted.text_condition(), wanted.value_conditions()
    columns = [*FACETS.values(), *(f"{condition.sql} AS keeps_{name}" for name, condition in chosen.items())]
    kept = "MATERIALIZED" if chosen or text.parameters else "NOT MATERIALIZED"
    parts = [_facet_query(name, [f"keeps_{other}" for other in chosen if other != name]) for name in FACETS]
    values = [value for condition in chosen.values() for value in condition.parameters]
    return Condition(
        f"WITH base AS {kept} (SELECT {', '.join(columns)} FROM attempts WHERE {text.sql}) {' UNION ALL '.join(parts)}",
        [*values, *text.parameters, *[_MOST_VALUES] * len(parts)],
    )


def _facet_query(name: str, conditions: list[str]) -> str:
    value = f"unnest({FACETS[name]})" if name in LISTS else FACETS[name]
    return (
        f"(SELECT '{name}' AS facet, value::VARCHAR AS value, count(*) AS attempts "
        f"FROM (SELECT {value} AS value FROM base WHERE {' AND '.join(conditions) or 'true'}) WHERE value IS NOT NULL "
        "GROUP BY ALL ORDER BY attempts DESC, value LIMIT ?)"
    )


def _number(facet: FacetValue) -> int:
    return int(facet.value)
