"""The attempts of a warehouse as one narrow table in memory, its filters, and the routes that list and count them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from importlib import resources
from typing import Annotated, Any, Literal

import duckdb
from fastapi import APIRouter, Query
from pydantic import Field

from trajmill.schemas.record import Record
from trajmill.warehouse.delta_log import newest_log_entry
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.views import OFFLINE

_COMMON = ("run_id", "round")
_COLUMNS = {
    "trajectories": (
        *("trajectory_id", "query_id", "agent", "model_version", "environment", "attempt", "purpose", "guidance_id"),
        *("status", "stop_reason", "failure_class", "failure_message", "answer", "reward", "steps", "wall_ms"),
        *("written_at", *_COMMON),
    ),
    "queries": ("query_id", "platform", "apps", "source", "task", "instruction", "difficulty", "split", *_COMMON),
    "judgements": ("trajectory_id", "correct", "agreed", "judge", "made_by", *_COMMON),
}
_SECONDS_BETWEEN_LOOKS = 1.0
_MOST_VALUES = 200
Row = dict[str, Any]
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


class Catalogue:
    """Answers SQL over the table `attempts`, which follows the commits of the warehouse.

    `attempts` has a row for each trajectory, joined with its query and its judgements (`attempts.sql`). All methods
    raise BadInputError if a committed file or an entry of a table's log is missing or damaged.
    """

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._database = duckdb.connect(config=OFFLINE)
        self._lock = threading.Lock()
        self._entries: dict[str, str] = {}
        self._looked = 0.0
        self._refresh()

    def ask(self, query: str, /, **parameters: object) -> list[Row]:
        """Return the rows of one SELECT, by column; all values are bound as parameters."""
        self._refresh()
        with self._database.cursor() as cursor:
            rows = cursor.execute(query, parameters).fetchall()
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in rows]

    def _refresh(self) -> None:
        """Read the tables again after a commit, at most once in a while."""
        with self._lock:
            if self._entries and time.monotonic() - self._looked < _SECONDS_BETWEEN_LOOKS:
                return
            entries = {table: newest_log_entry(self._warehouse, table) for table in _COLUMNS}
            if entries != self._entries:
                with self._database.cursor() as cursor:
                    for table, columns in _COLUMNS.items():
                        cursor.register(f"read_{table}", read_table(self._warehouse, table, columns))
                    cursor.execute(resources.files(__package__).joinpath("attempts.sql").read_text(encoding="utf-8"))
                self._entries = entries
            self._looked = time.monotonic()


class AttemptFilter(Record):
    """Selects attempts with one of the values of each filter that has any, as a query string has them."""

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
    text: str = Field(default="", max_length=200)
    """Part of the instruction, the task, the answer or the failure, or the start of an id; case does not matter."""

    def given(self) -> Row:
        return {name: value for name in _CONDITIONS if (value := getattr(self, name))}


_TEXTS = {
    "query": "query_id = $query",
    "text": "(contains(searched, lower($text)) OR starts_with(trajectory_id, $text) OR starts_with(query_id, $text))",
}
_FACETS = {name: name for name in AttemptFilter.model_fields if name not in _TEXTS}
_FACETS |= {"run": "run_id", "failure": "failure_class", "stop": "stop_reason", "app": "apps"}
_FACETS["policy"] = "model_version"
"""The column of table `attempts` for each filter of values."""
_LISTS = frozenset({"app", "disagreement"})
"""Filters whose column has several values in a row."""
_NUMBERS = frozenset({"round", "difficulty"})
_CONDITIONS = _TEXTS | {
    name: f"list_has_any({column}, ${name})" if name in _LISTS else f"list_contains(${name}, {column})"
    for name, column in _FACETS.items()
}
"""The SQL of each filter; its value is the parameter of its name."""


def _all_of(filters: Iterable[str]) -> str:
    return " AND ".join(["true", *(_CONDITIONS[name] for name in filters)])


class PageRequest(AttemptFilter):
    """A page of the attempts that match; pages are named by rows, so that new rows shift nothing."""

    order: Order = "newest"
    after: int | None = Field(default=None, ge=0)
    """Place of the last row of the page before."""
    before: int | None = Field(default=None, ge=0)
    """Place of the first row of the page after."""
    limit: int = Field(default=50, ge=1, le=500)


class SuccessRequest(AttemptFilter):
    by: Literal["app", "task", "split"] = "app"


def attempt_routes(catalogue: Catalogue) -> APIRouter:
    routes = APIRouter(prefix="/api")

    @routes.get("/trajectories")
    def page(wanted: Annotated[PageRequest, Query()]) -> Row:
        """Return a page of attempts; `first` and `last` if no row comes before or after it."""
        given, (column, falls) = wanted.given(), _KEYS[wanted.order]
        backwards = wanted.before is not None
        at = wanted.before if backwards else wanted.after
        order, sign = ("DESC", "<") if falls is not backwards else ("ASC", ">")
        condition, beyond = _all_of(given), Row()
        if at is not None:
            keys = catalogue.ask(f"SELECT {column} AS key, place AS at FROM attempts WHERE place = $at", at=at)
            beyond = keys[0] if keys else {}
            further = f"({column} {sign} $key OR ({column} = $key AND place {sign} $at))" if keys else "false"
            condition = f"{condition} AND {further}"
        rows = catalogue.ask(
            f"SELECT {ATTEMPT_COLUMNS} FROM attempts WHERE {condition} "
            f"ORDER BY {column} {order}, place {order} LIMIT $most",
            **(given | beyond),
            most=wanted.limit + 1,
        )
        more, shown = len(rows) > wanted.limit, rows[: wanted.limit]
        total = catalogue.ask(f"SELECT count(*) AS n FROM attempts WHERE {_all_of(given)}", **given)
        return {
            "rows": shown[::-1] if backwards else shown,
            "total": total[0]["n"],
            "first": not more if backwards else at is None,
            "last": not backwards and not more,
        }

    @routes.get("/facets")
    def facets(wanted: Annotated[AttemptFilter, Query()]) -> dict[str, list[Row]]:
        """Count the attempts of each value of each filter among those that match the other filters.

        The most frequent values come first, and numbers in their order.
        """
        given = wanted.given()
        chosen = given.keys() - _TEXTS.keys()
        # One statement for all filters, so that each condition is evaluated once for each attempt.
        columns = [*_FACETS.values(), *(f"{_CONDITIONS[name]} AS keeps_{name}" for name in chosen)]
        parts = []
        for name, column in _FACETS.items():
            others = " AND ".join(f"keeps_{other}" for other in chosen if other != name) or "true"
            value = f"unnest({column})" if name in _LISTS else column
            parts.append(
                f"(SELECT '{name}' AS facet, value::VARCHAR AS value, count(*) AS attempts "
                f"FROM (SELECT {value} AS value FROM base WHERE {others}) WHERE value IS NOT NULL "
                f"GROUP BY ALL ORDER BY attempts DESC, value LIMIT {_MOST_VALUES})"
            )
        kept, texts = "MATERIALIZED" if given else "NOT MATERIALIZED", _all_of(given.keys() & _TEXTS.keys())
        statement = f"WITH base AS {kept} (SELECT {', '.join(columns)} FROM attempts WHERE {texts})"
        found: dict[str, list[Row]] = {name: [] for name in _FACETS}
        for row in catalogue.ask(f"{statement} {' UNION ALL '.join(parts)}", **given):
            name = row.pop("facet")
            found[name].append(row | {"value": int(row["value"])} if name in _NUMBERS else row)
        for name in _NUMBERS:
            found[name].sort(key=lambda row: int(row["value"]))
        return found

    @routes.get("/success")
    def success(wanted: Annotated[SuccessRequest, Query()]) -> list[Row]:
        """Count the attempts that the environment checked, by name and round; one counts for each of its apps."""
        given, name = wanted.given(), "unnest(apps)" if wanted.by == "app" else wanted.by
        return catalogue.ask(
            f"SELECT name, round, count(*) FILTER (outcome = 'passed') AS passed, count(*) AS attempts "
            f"FROM (SELECT {name} AS name, round, outcome FROM attempts "
            f"WHERE {_all_of(given)} AND outcome IN ('passed', 'not passed')) "
            "WHERE name IS NOT NULL GROUP BY name, round ORDER BY name, round",
            **given,
        )

    return routes
