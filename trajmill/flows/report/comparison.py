"""Two policies of a run on the queries that both attempted: rows for the viewer, and a page for `trajmill compare`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from rich.table import Table

from trajmill.flows.report.figures import SPLIT_NAMES, RunViews
from trajmill.flows.report.page import page_templates
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import Record
from trajmill.schemas.tables.query import Split
from trajmill.stages.metrics.intervals import PairedOutcomes, holm
from trajmill.warehouse.atomic import write_bytes


class ComparedQuery(Record):
    query_id: str
    split: str
    task: str
    apps: tuple[str, ...]
    instruction: str
    a: str
    """The trajectory of the first policy, and `b` that of the second."""
    b: str
    side: str
    """`both`, `neither`, `gained` (only the second passed) or `lost` (only the first)."""


class ComparedGroup(Record):
    """Queries of one split, app or task; a query of several apps counts for each of them."""

    kind: str
    name: str
    queries: int
    first: int
    second: int
    gained: int
    lost: int
    difference: float
    """Of the success rates, second minus first, with its 95 % interval from `low` to `high`."""
    low: float
    high: float
    p_value: float
    """Exact McNemar test; of splits, apps and tasks adjusted for the number of groups of their kind (Holm)."""


class Comparison(NamedTuple):
    a: str
    b: str
    queries: tuple[ComparedQuery, ...]
    groups: tuple[ComparedGroup, ...]
    """All held-out queries first (all, if none is held out), then splits, apps and tasks."""


def measured_policies(views: RunViews) -> list[tuple[str, int]]:
    """The policies with scored attempts on the measured queries and their last round, the newest first."""
    return [(row.policy, row.round) for row in views.rows("measured_policies")]


def compare_measured(views: RunViews, a: str, b: str) -> Comparison:
    """Compare two policies on the queries on which both have a scored attempt; there may be none."""
    queries = tuple(ComparedQuery.model_validate(vars(row)) for row in views.rows("compared_queries", a, b))
    return Comparison(a, b, queries, tuple(_groups(queries)))


def _groups(queries: tuple[ComparedQuery, ...]) -> Iterator[ComparedGroup]:
    members: dict[tuple[str, str], list[str]] = {}
    order = ("held out", "split", "app", "task")
    for query in [query for query in queries if query.split != Split.TRAIN] or queries:
        members.setdefault(("held out", "all held-out queries"), []).append(query.side)
    for query in queries:
        for place in [("split", query.split), ("task", query.task), *(("app", app) for app in query.apps)]:
            members.setdefault(place, []).append(query.side)
    places = sorted(members, key=lambda group: (order.index(group[0]), group[1]))
    for _, of_kind in groupby(places, key=lambda group: group[0]):
        groups = list(of_kind)
        outcomes = [PairedOutcomes(*map(members[group].count, PairedOutcomes._fields)) for group in groups]
        p_values = holm([each.p_value for each in outcomes])
        for (kind, name), each, p_value in zip(groups, outcomes, p_values, strict=True):
            yield ComparedGroup(
                kind=kind,
                name=name,
                queries=each.queries,
                first=each.both + each.lost,
                second=each.both + each.gained,
                gained=each.gained,
                lost=each.lost,
                difference=each.difference,
                low=each.interval.low,
                high=each.interval.high,
                p_value=p_value,
            )


def comparison_table(compared: Comparison) -> Table:
    """The held-out queries and splits, and the apps and tasks where a query changed sides."""
    title = f"A {compared.a}\nB {compared.b}"
    headings = ("", "queries", "A", "B", "gained", "lost", "difference", "95 % interval", "p")
    table = Table(*headings, title=title, title_justify="left", title_style="")
    for column in table.columns[1:]:
        column.justify = "right"
    kind = compared.groups[0].kind
    for group in compared.groups:
        if group.kind in ("app", "task") and not group.gained + group.lost:
            continue
        if group.kind != kind:
            table.add_section()
            kind = group.kind
        table.add_row(
            SPLIT_NAMES.get(group.name, group.name),
            str(group.queries),
            f"{group.first / group.queries:.0%}",
            f"{group.second / group.queries:.0%}",
            str(group.gained),
            str(group.lost),
            f"{100 * group.difference:+.1f}",
            f"{100 * group.low:+.1f} to {100 * group.high:+.1f}",
            f"{group.p_value:.2g}",
        )
    return table


def write_comparison(compared: Comparison, folder: Path) -> list[Path]:
    """Write its page and its rows, `queries` and `groups`, into a folder; return the files. Raises BadInputError."""
    template = page_templates().get_template("comparison.html")
    files = [folder / name for name in ("comparison.html", "queries.parquet", "groups.parquet")]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_bytes(files[0], template.render(compared=compared, split_names=SPLIT_NAMES).encode())
        for path, rows in zip(files[1:], (compared.queries, compared.groups), strict=True):
            table = pa.Table.from_pylist([row.model_dump() for row in rows])
            pq.write_table(table, path, write_page_checksum=True)
    except OSError as error:
        raise BadInputError(f"{folder}: cannot be written ({error.strerror}); name another folder") from error
    return files
