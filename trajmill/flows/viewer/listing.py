"""The filters of attempts, as a query string has them and as SQL with bound parameters."""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal, NamedTuple

from pydantic import Field

from trajmill.flows.viewer.catalogue import Catalogue
from trajmill.schemas.record import Record

FACETS = {
    "run": "run_id",
    "round": "round",
    "purpose": "purpose",
    "split": "split",
    "outcome": "outcome",
    "judged": "judged",
    "disagreement": "disagreement",
    "failure": "failure_class",
    "stop": "stop_reason",
    "app": "apps",
    "task": "task",
    "platform": "platform",
    "difficulty": "difficulty",
    "source": "source",
    "agent": "agent",
    "policy": "model_version",
}
"""The column of table `attempts` for each filter of values."""
LISTS = frozenset({"app", "disagreement"})
"""Filters whose column has several values in a row."""
NUMBERS = frozenset({"round", "difficulty"})
"""Filters whose values are numbers."""
_MOST_CHARACTERS = 200
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


class AttemptFilter(Record):
    """Which attempts are meant: those with one of the values of each filter that has any."""

    run: list[str] = []
    round: list[int] = []
    purpose: list[str] = []
    split: list[str] = []
    outcome: list[str] = []
    judged: list[str] = []
    disagreement: list[str] = []
    failure: list[str] = []
    stop: list[str] = []
    app: list[str] = []
    task: list[str] = []
    platform: list[str] = []
    difficulty: list[int] = []
    source: list[str] = []
    agent: list[str] = []
    policy: list[str] = []
    query: str = ""
    """Id of a query."""
    text: str = Field(default="", max_length=_MOST_CHARACTERS)
    """Part of the instruction, the task, the answer or the failure, or the start of an id; case does not matter."""

    def condition(self) -> Condition:
        """All filters as SQL."""
        parts = [self.text_condition(), *self.value_conditions().values()]
        parameters = [value for part in parts for value in part.parameters]
        return Condition(" AND ".join(part.sql for part in parts), parameters)

    def value_conditions(self) -> dict[str, Condition]:
        """The filters that have values, each as SQL."""
        return {
            name: Condition(f"list_has_any({column}, ?)" if name in LISTS else f"list_contains(?, {column})", [values])
            for name, column in FACETS.items()
            if (values := getattr(self, name))
        }

    def text_condition(self) -> Condition:
        """The filters of texts."""
        parts, parameters = ["true"], list[object]()
        if self.query:
            parts.append("query_id = ?")
            parameters.append(self.query)
        if self.text:
            parts.append("(contains(searched, lower(?)) OR starts_with(trajectory_id, ?) OR starts_with(query_id, ?))")
            parameters += [self.text] * 3
        return Condition(" AND ".join(parts), parameters)


class Condition(NamedTuple):
    """A condition of table `attempts`."""

    sql: str
    """Made of column names of this module alone; values are `?`."""
    parameters: list[object]


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
