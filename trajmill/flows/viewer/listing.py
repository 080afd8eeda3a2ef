"""The filters of attempts, as a query string has them and as SQL with bound parameters."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from pydantic import Field

from trajmill.flows.viewer.catalogue import Catalogue, Row
from trajmill.schemas.record import Record

_MOST_CHARACTERS = 200
_MOST_VALUES = 200
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
ATTEMPT_COLUMNS = (
    "place, run_id, trajectory_id, query_id, round, purpose, split, task, apps, platform, difficulty, instruction, "
    "agent, model_version, guidance_id, outcome, judged, disagreement, stop_reason, failure_class, failure_message, "
    "steps, wall_ms, written_at"
)
"""The columns of an attempt in a list; `place` is its number in the order in which attempts landed."""


class Condition(NamedTuple):
    sql: str
    """Made of column names of this module alone; values are `?`."""
    parameters: list[object]


class AttemptFilter(Record):
    """Selects attempts with one of the values of each filter that has any."""

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
    text: str = Field(default="", max_length=_MOST_CHARACTERS)
    """Part of the instruction, the task, the answer or the failure, or the start of an id; case does not matter."""

    def condition(self) -> Condition:
        parts = [self.text_condition(), *self.value_conditions().values()]
        parameters = [value for part in parts for value in part.parameters]
        return Condition(" AND ".join(part.sql for part in parts), parameters)

    def value_conditions(self) -> dict[str, Condition]:
        """Return the filters that have values, each as SQL."""
        return {
            name: Condition(f"list_has_any({column}, ?)" if name in LISTS else f"list_contains(?, {column})", [values])
            for name, column in FACETS.items()
            if (values := getattr(self, name))
        }

    def text_condition(self) -> Condition:
        """Return the filters of texts as SQL."""
        parts, parameters = ["true"], list[object]()
        if self.query:
            parts.append("query_id = ?")
            parameters.append(self.query)
        if self.text:
            parts.append("(contains(searched, lower(?)) OR starts_with(trajectory_id, ?) OR starts_with(query_id, ?))")
            parameters += [self.text] * 3
        return Condition(" AND ".join(parts), parameters)


_RENAMED = {
    "run": "run_id",
    "failure": "failure_class",
    "stop": "stop_reason",
    "app": "apps",
    "policy": "model_version",
}
FACETS = {name: _RENAMED.get(name, name) for name in AttemptFilter.model_fields if name not in ("query", "text")}
"""The column of table `attempts` for each filter of values."""
LISTS = frozenset({"app", "disagreement"})
"""Filters whose column has several values in a row."""
NUMBERS = frozenset({"round", "difficulty"})
"""Filters whose values are numbers."""


class PageRequest(AttemptFilter):
    """A page of the attempts that match; pages are named by rows, so that new rows shift nothing."""

    order: Order = "newest"
    after: int | None = Field(default=None, ge=0)
    """Place of the last row of the page before."""
    before: int | None = Field(default=None, ge=0)
    """Place of the first row of the page after."""
    limit: int = Field(default=PAGE_ROWS, ge=1, le=500)


class AttemptPage(NamedTuple):
    rows: list[Row]
    """With the columns `ATTEMPT_COLUMNS`."""
    total: int
    """Attempts that match, on all pages."""
    first: bool
    """Whether no row comes before these."""
    last: bool
    """Whether no row comes after these."""


def attempt_page(catalogue: Catalogue, wanted: PageRequest) -> AttemptPage:
    found = condition = wanted.condition()
    column, falls = _KEYS[wanted.order]
    backwards = wanted.before is not None
    at = wanted.before if backwards else wanted.after
    order, sign = ("DESC", "<") if falls is not backwards else ("ASC", ">")
    if at is not None:
        keys = [row["key"] for row in catalogue.ask(f"SELECT {column} AS key FROM attempts WHERE place = ?", [at])]
        beyond = f"{found.sql} AND ({column} {sign} ? OR ({column} = ? AND place {sign} ?))"
        condition = Condition(beyond, [*found.parameters, *keys * 2, at]) if keys else Condition("false", [])
    rows = catalogue.ask(
        f"SELECT {ATTEMPT_COLUMNS} FROM attempts WHERE {condition.sql} "
        f"ORDER BY {column} {order}, place {order} LIMIT ?",
        [*condition.parameters, wanted.limit + 1],
    )
    more, shown = len(rows) > wanted.limit, rows[: wanted.limit]
    total = catalogue.ask(f"SELECT count(*) AS n FROM attempts WHERE {found.sql}", found.parameters)[0]["n"]
    return AttemptPage(
        rows=shown[::-1] if backwards else shown,
        total=total,
        first=not more if backwards else at is None,
        last=not backwards and not more,
    )


def facets(catalogue: Catalogue, wanted: AttemptFilter) -> dict[str, list[Row]]:
    """Count the attempts of each value of each filter among those that match the other filters.

    The most frequent values come first, and numbers in their order.
    """
    text, chosen = wanted.text_condition(), wanted.value_conditions()
    # One statement for all filters, so that each condition is evaluated once for each attempt.
    columns = [*FACETS.values(), *(f"{condition.sql} AS keeps_{name}" for name, condition in chosen.items())]
    kept = "MATERIALIZED" if chosen or text.parameters else "NOT MATERIALIZED"
    parts = []
    for name, column in FACETS.items():
        others = " AND ".join(f"keeps_{other}" for other in chosen if other != name) or "true"
        value = f"unnest({column})" if name in LISTS else column
        parts.append(
            f"(SELECT '{name}' AS facet, value::VARCHAR AS value, count(*) AS attempts "
            f"FROM (SELECT {value} AS value FROM base WHERE {others}) WHERE value IS NOT NULL "
            "GROUP BY ALL ORDER BY attempts DESC, value LIMIT ?)"
        )
    statement = f"WITH base AS {kept} (SELECT {', '.join(columns)} FROM attempts WHERE {text.sql})"
    values = [value for condition in chosen.values() for value in condition.parameters]
    limits = [_MOST_VALUES] * len(parts)
    found: dict[str, list[Row]] = {name: [] for name in FACETS}
    for row in catalogue.ask(f"{statement} {' UNION ALL '.join(parts)}", [*values, *text.parameters, *limits]):
        name = row.pop("facet")
        found[name].append(row | {"value": int(row["value"])} if name in NUMBERS else row)
    for name in NUMBERS:
        found[name].sort(key=lambda row: int(row["value"]))
    return found
