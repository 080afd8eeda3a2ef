"""Walks programs for their pathways and makes queries from them, in a separate run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

from rich.table import Table

from trajmill.flows.configuration.config import Config
from trajmill.flows.context import RoundContext
from trajmill.flows.report.figures import PathwayRow, read_pathways
from trajmill.flows.report.page import write_report
from trajmill.flows.serving.models_ready import models_ready
from trajmill.flows.stage import StageOutcome, StageReport, run_once
from trajmill.flows.tasks.pathways import PATHWAYS, pathways, programs_of
from trajmill.flows.tasks.planned import watched
from trajmill.flows.tasks.queries.sources import pathway_source, queries_of
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.query import Split
from trajmill.stages.queries.pathways.source import PathwaySettings
from trajmill.warehouse.atomic import disk_full_as_error
from trajmill.warehouse.layout import StageRun, create_warehouse
from trajmill.warehouse.lock import sole_worker
from trajmill.warehouse.read import read_rows
from trajmill.warehouse.shards import write_tables
from trajmill.warehouse.views import refresh_views

PATHWAY_QUERIES = "pathway_queries"


class PathwaysReport(NamedTuple):
    """The result of walking programs."""

    table: Table
    """A line for each program."""
    queries: dict[Split, int]
    """By split, the number of queries that were made."""
    failures: int
    """Branches that could not be walked, and queries that were refused."""
    report_path: Path


def walk_for_pathways(config: Config, programs: tuple[str, ...]) -> PathwaysReport:
    """Walk programs, by default those of the configuration; a program is walked only once.

    Raises:
        TrajmillError: a program is unknown, nothing was found, or another process works on the run.
    """
    trial = _trial(config, programs)
    programs_of(trial)
    warehouse = create_warehouse(trial.run.root)
    context = RoundContext(trial, warehouse, 1)
    asked = [trial.pathways.second_opinion] if trial.pathways.second_opinion else []
    models = models_ready(trial, warehouse.run(trial.run_id), asked)
    with sole_worker(warehouse, trial.run_id), disk_full_as_error(warehouse.root), models:
        with watched(context, PATHWAYS):
            pathways(context)
        with watched(context, PATHWAY_QUERIES):
            _pathway_queries(context)
        refresh_views(warehouse)
        report = write_report(warehouse, trial.run_id)
    splits = Counter(query.split for query in context.queries.values())
    return PathwaysReport(
        _table(read_pathways(warehouse, trial.run_id)),
        {split: splits[split] for split in Split},
        len(read_rows(warehouse, Failure, run_id=trial.run_id)),
        report,
    )


def _pathway_queries(context: RoundContext) -> StageReport:
    """Make queries from pathways only, as a stage of its own."""

    def work(at: StageRun) -> StageOutcome:
        made = queries_of(context, [pathway_source(context)])
        files = write_tables(context.warehouse, at, {"queries": made.queries, "failures": made.failures})
        return StageOutcome(len(made.queries) + len(made.failures), len(made.queries), files)

    return run_once(context, PATHWAY_QUERIES, work)


def _trial(config: Config, programs: tuple[str, ...]) -> Config:
    name = f"{config.run.name}-pathways"[-40:].lstrip("-_")
    settings = config.pathways
    changes = {
        "programs": programs or settings.programs,
        "queries": settings.queries or PathwaySettings().most,
    }
    return config.model_copy(
        update={
            "run": config.run.model_copy(update={"name": name, "rounds": 1}),
            "pathways": settings.model_copy(update=changes),
        }
    )


def _table(rows: tuple[PathwayRow, ...]) -> Table:
    headings = ("program", "pathways", "dialogs", "tabs", "need a selection", "seconds", "per second")
    table = Table(*headings, title=f"{sum(row.pathways for row in rows)} pathways")
    for row in rows:
        speed = "–" if row.per_second is None else f"{row.per_second:.1f}"
        counts = (row.pathways, row.dialogs, row.tabs, row.need_selection)
        table.add_row(row.program, *map(str, counts), f"{row.seconds:.1f}", speed)
    return table
