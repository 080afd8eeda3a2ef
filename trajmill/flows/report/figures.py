"""Figures of a run, read from the warehouse's DuckDB views alone: for the report, the viewer and `trajmill status`.

A row has the columns of its query as attributes.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from types import SimpleNamespace
from typing import Any, NamedTuple

import duckdb

from trajmill.flows.new_run import stored_identity
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.sql import check_files
from trajmill.warehouse.store.connection import unreadable
from trajmill.warehouse.views import connect, fresh_views

SPLIT_NAMES = {
    "train": "training queries",
    "heldout_slots": "new slot combinations",
    "heldout_phrasings": "new phrasings",
    "heldout_apps": "apps never seen",
    "validation": "validation",
}
"""Names of the splits on the page, in order."""
_NAMED_STAGES = 9
_MOST_ROUNDS = 8

Rows = list[SimpleNamespace]
Pivot = dict[str, tuple[SimpleNamespace | None, ...]]
"""By name, a row for each round; None for a round that has none."""


def money(price: float) -> str:
    """Cents, or as many digits as a smaller price needs."""
    return f"{price:,.2f}" if price >= 1 or not price else f"{price:.2g}"


class RunViews(NamedTuple):
    """The views of a warehouse, and the run whose id is the first parameter of all queries."""

    warehouse: Warehouse
    connection: duckdb.DuckDBPyConnection
    run_id: str

    def rows(self, name: str, *parameters: object) -> Rows:
        """Return the rows of a query in the folder `sql`."""
        query = _query(name)
        check_files(self.warehouse, query)
        found = self.connection.execute(query, [self.run_id, *parameters])
        names = [column[0] for column in found.description]
        return [SimpleNamespace(**dict(zip(names, row, strict=True))) for row in found.fetchall()]


@cache
def _query(name: str) -> str:
    return files(__package__).joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")


@contextmanager
def run_views(warehouse: Warehouse, run_id: str = "") -> Iterator[RunViews]:
    """Open up-to-date views. Raises BadInputError if a committed file is missing or damaged."""
    with fresh_views(warehouse) as shown, connect(shown) as connection:
        try:
            yield RunViews(warehouse, connection, run_id)
        except (duckdb.InvalidInputException, duckdb.IOException) as error:
            raise unreadable(warehouse.address, error) from error


class Series(NamedTuple):
    name: str
    points: Sequence[Any]
    """With `round`, `share` and its interval from `low` to `high`, all in [0, 1]; in the order of the rounds."""


class Bar(NamedTuple):
    label: str
    segments: Mapping[str, float]
    note: str


class Figures(NamedTuple):
    """Everything that the report shows, except the trajectories and the nights."""

    run_id: str
    tables: Mapping[str, Rows]
    """By the names of `TABLES`."""
    success: tuple[Series, ...] = ()
    attempts: tuple[Series, ...] = ()
    """Success of unguided and of guided attempts while collecting."""
    rounds: tuple[int, ...] = ()
    funnel: Pivot = {}
    judge: Pivot = {}
    measured_rounds: tuple[int, ...] = ()
    """The last rounds with measured success, those of `apps` and `tasks`."""
    apps: Pivot = {}
    tasks: Pivot = {}
    """Those that do worst in the last round come first."""
    seconds: tuple[Bar, ...] = ()
    configuration: tuple[tuple[str, str], ...] = ()
    """What decides the run's rows, by key; empty for a run of an earlier trajmill."""


TABLES = (
    *("rounds", "earlier_versions", "totals", "critics", "lift", "demonstrators", "models", "failures", "pathways"),
    *("disagreements", "clusters", "unrewarded", "collected", "splits", "errors", "malformed"),
)
"""The queries whose rows the page shows as they are."""


def read_figures(views: RunViews) -> Figures:
    tables = {name: views.rows(name) for name in TABLES}
    rounds, successes = tuple(row.round for row in tables["rounds"]), views.rows("measured")
    by_task, by_app = ([row for row in successes if row.kind == kind] for kind in ("task", "app"))
    measured = tuple(sorted({row.round for row in by_task})[-_MOST_ROUNDS:])
    tasks = _pivot(by_task, measured)
    return Figures(
        run_id=views.run_id,
        rounds=rounds,
        success=_series(views.rows("success"), SPLIT_NAMES),
        attempts=_series(views.rows("attempts"), {"train": "without guidance", "guided": "with guidance"}),
        funnel=_pivot(views.rows("funnel"), rounds),
        judge=_pivot(views.rows("judge"), rounds),
        seconds=_seconds(views.rows("seconds")),
        measured_rounds=measured,
        apps=_pivot(by_app, measured),
        # Those that were not measured in the last round come last.
        tasks=dict(sorted(tasks.items(), key=lambda task: getattr(task[1][-1], "share", 2.0))),
        configuration=tuple(
            (key, value if isinstance(value, str) else json.dumps(value))
            for key, value in stored_identity(views.warehouse, views.run_id).items()
        ),
        tables=tables,
    )


def _series(rows: Rows, names: Mapping[str, str]) -> tuple[Series, ...]:
    lines = (Series(name, [row for row in rows if row.name == key]) for key, name in names.items())
    return tuple(line for line in lines if line.points)


def _pivot(rows: Rows, rounds: tuple[int, ...]) -> Pivot:
    cells: dict[str, dict[int, SimpleNamespace]] = defaultdict(dict)
    for row in rows:
        cells[row.name][row.round] = row
    return {name: tuple(map(found.get, rounds)) for name, found in cells.items()}


def _seconds(rows: Rows) -> tuple[Bar, ...]:
    bars: dict[int, Counter[str]] = defaultdict(Counter)
    for row in rows:
        bars[row.round][row.stage] += row.seconds
    named = dict(sum(bars.values(), Counter[str]()).most_common(_NAMED_STAGES))
    made = []
    for number, spent in bars.items():
        shown = {stage: seconds for stage, seconds in spent.items() if stage in named}
        rest = sum(seconds for stage, seconds in spent.items() if stage not in named)
        made.append(Bar(f"round {number}", shown | {"the rest": rest}, f"{spent.total():.1f} s"))
    return tuple(made)
