"""Tries the environment of a configuration in a separate run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich.table import Table

from trajmill.flows.configuration.config import Config
from trajmill.flows.context import RoundContext
from trajmill.flows.report.page import write_report
from trajmill.flows.tasks.generate import GENERATE, generate
from trajmill.flows.tasks.planned import watched
from trajmill.flows.tasks.walk import WALK, walk_queries
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.nearest import instead_of
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.query import Query, Source
from trajmill.schemas.tables.trajectory import Trajectory
from trajmill.warehouse.atomic import disk_full_as_error
from trajmill.warehouse.layout import create_warehouse
from trajmill.warehouse.lock import sole_worker
from trajmill.warehouse.read import read_rows
from trajmill.warehouse.views import refresh_views


class WalkReport(NamedTuple):
    """The result of trying an environment."""

    table: Table
    """A line for each query."""
    report_path: Path
    all_failed: bool
    """Whether no walk reached its goal; one without a check has reached it if nothing failed."""


def walk(config: Config, queries: int, source: str = "") -> WalkReport:
    """Try some queries, of one source if it is named, and write a report with pictures of the steps.

    Raises:
        TrajmillError: there is no such source, no query can be made, or another process works on the run.
    """
    if source and source not in set(Source):
        raise BadInputError(f"there is no source {source!r}; {instead_of(source, Source)}")
    name = f"{config.run.name}-walk-{source}{queries}"[-40:].lstrip("-_")
    trial = config.model_copy(update={"run": config.run.model_copy(update={"name": name, "rounds": 1})})
    warehouse = create_warehouse(trial.run.root)
    context = RoundContext(trial, warehouse, 1)
    with sole_worker(warehouse, trial.run_id), disk_full_as_error(warehouse.root):
        with watched(context, GENERATE):
            generate(context)
        with watched(context, WALK):
            walk_queries(context, queries, Source(source) if source else None)
        refresh_views(warehouse)
        report = write_report(warehouse, trial.run_id)
    tried = read_rows(context.warehouse, Trajectory, run_id=context.run_id)
    return WalkReport(_table(context, tried), report, not any(map(_reached_goal, tried)))


def _reached_goal(trajectory: Trajectory) -> bool:
    return trajectory.reward == 1.0 or (trajectory.reward is None and trajectory.failure_class is None)


def _table(context: RoundContext, tried: Sequence[Trajectory]) -> Table:
    passed = sum(trajectory.reward == 1.0 for trajectory in tried)
    table = Table("task", "instruction", "steps", "seconds", "outcome", title=f"{passed} of {len(tried)} done")
    for trajectory in tried:
        query = context.queries[trajectory.query_id]
        seconds = f"{trajectory.wall_ms / 1000:.1f}"
        table.add_row(query.task, query.instruction, str(trajectory.steps), seconds, _outcome(trajectory, query))
    table.caption = _refused(context)
    return table


def _refused(context: RoundContext) -> str | None:
    """How many queries were refused when the queries were made, with the first reason; None if none was."""
    found = read_rows(context.warehouse, Failure, rounds=[1], run_id=context.run_id)
    refused = sorted(failure.message for failure in found if failure.stage == GENERATE)
    return f"{len(refused)} refused, the first: {refused[0]}" if refused else None


def _outcome(trajectory: Trajectory, query: Query) -> str:
    if trajectory.failure_class is not None and trajectory.failure_message:
        return f"{trajectory.failure_class} failure: {trajectory.failure_message}"
    if trajectory.reward is None:
        return "no programmatic check" if query.goal == "{}" else f"not checked ({trajectory.stop_reason})"
    return f"reward {trajectory.reward:g}"
