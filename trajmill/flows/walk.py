"""Tries environments and programs in runs of their own: walks queries, and the pathways of programs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

from rich.table import Table

from trajmill.flows.configuration.config import Config
from trajmill.flows.policies.policy import endpoint_of, untrained_policy
from trajmill.flows.report.figures import run_views
from trajmill.flows.report.page import write_report
from trajmill.flows.serving.models_ready import working_on
from trajmill.flows.stage import RoundContext, StageOutcome, run_once
from trajmill.flows.tasks.generate import (
    GENERATE,
    generate,
    pathway_source,
    pathways,
    programs_of,
    queries_of,
)
from trajmill.flows.tasks.rollout import attempt_all
from trajmill.pipelines.models import ActingAgent
from trajmill.schemas.errors import TrajmillError
from trajmill.schemas.names import refuse_unknown
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.query import Query, Source, Split
from trajmill.schemas.tables.trajectory import Purpose, Trajectory
from trajmill.stages.agents.spec import WalkerSpec
from trajmill.stages.queries.pathways.source import MOST_QUERIES
from trajmill.stages.rollout.base import plan_once
from trajmill.warehouse.layout import StageRun

WALK = "walk"
PATHWAY_QUERIES = "pathway_queries"


class WalkReport(NamedTuple):
    table: Table
    report_path: Path
    all_failed: bool
    """Whether no walk reached its goal; one without a check has reached it if nothing failed."""


def walk(config: Config, queries: int, source: str = "") -> WalkReport:
    """Try queries, and write a report. Raises TrajmillError: no such source, no query, or the run is in use."""
    refuse_unknown([source] if source else [], Source, "there is no source")
    context = _trial(config, f"walk-{source}{queries}")

    def walk_queries(at: StageRun) -> StageOutcome:
        usable = [query for query in context.queries.values() if source in ("", query.source)]
        if not usable:
            raise TrajmillError(f"no query is of source {source}; the configuration asks for none, or all were dropped")
        chosen = sorted(usable, key=lambda query: (not query.path, query.query_id))[:queries]
        attempts = plan_once(chosen, Purpose.REFERENCE, config.run.seed, context.round)
        explores = any(not query.path for query in chosen)
        policy = endpoint_of(context, untrained_policy(context, at)) if explores else None
        return attempt_all(context, at, attempts, ActingAgent(WalkerSpec(), policy))

    with working_on(context):
        generate(context)
        run_once(context, WALK, walk_queries, "rows")
        report = write_report(context.warehouse, context.run_id)
    tried = context.rows(Trajectory)
    passed = sum(trajectory.reward == 1.0 for trajectory in tried)
    table = Table("task", "instruction", "steps", "seconds", "outcome", title=f"{passed} of {len(tried)} done")
    for trajectory in tried:
        query = context.queries[trajectory.query_id]
        seconds = f"{trajectory.wall_ms / 1000:.1f}"
        table.add_row(query.task, query.instruction, str(trajectory.steps), seconds, _outcome(trajectory, query))
    refused = sorted(failure.message for failure in context.rows(Failure, [1]) if failure.stage == GENERATE)
    table.caption = f"{len(refused)} refused, the first: {refused[0]}" if refused else None
    reached = (row.reward == 1.0 or (row.reward is None and row.failure_class is None) for row in tried)
    return WalkReport(table, report, not any(reached))


def _outcome(trajectory: Trajectory, query: Query) -> str:
    if trajectory.failure_class is not None and trajectory.failure_message:
        return f"{trajectory.failure_class} failure: {trajectory.failure_message}"
    if trajectory.reward is None:
        return "no programmatic check" if query.goal == "{}" else f"not checked ({trajectory.stop_reason})"
    return f"reward {trajectory.reward:g}"


class PathwaysReport(NamedTuple):
    table: Table
    queries: dict[Split, int]
    failures: int
    """Branches that could not be walked, and queries that were refused."""
    report_path: Path


def walk_for_pathways(config: Config, programs: tuple[str, ...]) -> PathwaysReport:
    """Walk programs once. Raises TrajmillError: one is unknown, nothing was found, or the run is in use."""
    settings = config.pathways
    changes = {"programs": programs or settings.programs, "queries": settings.queries or MOST_QUERIES}
    config = config.model_copy(update={"pathways": settings.model_copy(update=changes)})
    programs_of(config)
    context = _trial(config, "pathways")

    def make_queries(at: StageRun) -> StageOutcome:
        made = queries_of(context, [pathway_source(context)])
        return StageOutcome(
            len(made.queries) + len(made.failures), len(made.queries), context.write(at, made._asdict())
        )

    models = [settings.second_opinion] if settings.second_opinion else []
    with working_on(context, models):
        pathways(context)
        run_once(context, PATHWAY_QUERIES, make_queries, "rows")
        report = write_report(context.warehouse, context.run_id)
    with run_views(context.warehouse, context.run_id) as views:
        rows = views.rows("pathways")
    headings = ("program", "pathways", "dialogs", "tabs", "need a selection", "seconds", "per second")
    table = Table(*headings, title=f"{sum(row.pathways for row in rows)} pathways")
    for row in rows:
        speed = "–" if row.pathways_per_second is None else f"{row.pathways_per_second:.1f}"
        counts = (row.pathways, row.dialogs, row.tabs, row.need_selection)
        table.add_row(row.program, *map(str, counts), f"{row.seconds:.1f}", speed)
    splits = Counter(query.split for query in context.queries.values())
    return PathwaysReport(table, {split: splits[split] for split in Split}, len(context.rows(Failure)), report)


def _trial(config: Config, what: str) -> RoundContext:
    name = f"{config.run.name}-{what}"[-40:].lstrip("-_")
    trial = config.model_copy(update={"run": config.run.model_copy(update={"name": name, "rounds": 1})})
    return RoundContext.of(trial)
