"""Lets a model propose new training tasks, if the configuration asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.judges import prompts_of
from trajmill.flows.configuration.model_specs import model_of
from trajmill.flows.context import RoundContext
from trajmill.flows.stage import StageOutcome, StageReport, report_of, run_once
from trajmill.pipelines.propose import ProposalCounts, ProposeTasks, propose_new_tasks
from trajmill.pipelines.reading.verdicts import read_history
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.query import Query, Split
from trajmill.schemas.tables.registry import rows_from_arrow
from trajmill.schemas.tables.round_summary import StageCount
from trajmill.stages.queries.proposals.propose import TRIAL_STAGE
from trajmill.stages.queries.proposals.starts import (
    STAGE,
    StartingPoint,
    TaskSuccess,
    curriculum_starting_points,
    read_human_tasks,
)
from trajmill.stages.rollout.base import Limits
from trajmill.warehouse.columns import file_schema
from trajmill.warehouse.layout import StageRun
from trajmill.warehouse.read import read_shards

PROPOSE = STAGE
_UNDECIDED = "undecided"
"""In the result of a stage: proposed tasks that are in no table until an attempt at them is judged."""


def asks_for_tasks(config: Config) -> bool:
    """Whether the configuration asks for proposed tasks."""
    return config.queries.curriculum + config.queries.screenshot > 0


def propose(context: RoundContext) -> StageReport:
    """Let the writer model propose training queries for this round and the later ones."""
    if not asks_for_tasks(context.config):
        return StageReport(StageCount(stage=PROPOSE, rows_in=0, rows_out=0, seconds=0.0, cost=0.0), {})

    def work(at: StageRun) -> StageOutcome:
        settings, writer = context.config.queries, context.config.models.writer
        job = ProposeTasks(
            warehouse=context.warehouse,
            at=at,
            origin=context.origin,
            environment=context.environment,
            writer=model_of(context.config, writer),
            prompts=prompts_of(context.config).proposals,
            wanted=ProposalCounts(settings.curriculum, settings.screenshot),
            run_seed=context.config.run.seed,
            heldout_apps=settings.unseen_app_names,
            limits=Limits(seconds=context.config.rollout.max_seconds),
            environments=context.config.rollout.concurrency,
            in_flight=context.config.endpoints[writer].max_in_flight,
            untried=still_undecided(context),
        )
        made = propose_new_tasks(job, _starting_points(context), context.beam)
        outcome = StageOutcome(sum(job.wanted), made.rows("queries"), made.files)
        return held_back(context, outcome) if settings.try_proposals else outcome

    return run_once(context, PROPOSE, work)


def _starting_points(context: RoundContext) -> tuple[StartingPoint, ...]:
    """The starting points of the example tasks, with the success so far.

    Raises:
        BadInputError: there is no file of example tasks, or a line of it is not a task.
    """
    file = context.config.queries.example_tasks
    if file is None:
        raise BadInputError("queries.example_tasks is missing: name a file of tasks that people wrote")
    return curriculum_starting_points(read_human_tasks(file), task_successes(context))


def task_successes(context: RoundContext) -> list[TaskSuccess]:
    """The policy's success at each training query that it tried before this round; the query tried last comes last."""
    queries = context.queries
    shares = read_history(context.warehouse, context.run_id, context.round).shares()
    return [
        TaskSuccess(query.instruction, query.platform, query.apps, share)
        for query, share in ((queries[query_id], share) for query_id, share in shares.items())
        if query.split is Split.TRAIN
    ]


def held_back(context: RoundContext, outcome: StageOutcome) -> StageOutcome:
    """The outcome of a stage that proposes, with its queries in the result instead of their table."""
    files = {table: shards for table, shards in outcome.files.items() if table != "queries"}
    proposals = proposals_in(context, outcome)
    return replace(outcome, files=files, result=as_result(proposals))


def proposals_in(context: RoundContext, outcome: StageOutcome) -> list[Query]:
    """The queries that a stage has written and not committed yet."""
    columns = file_schema("queries").names
    shards = read_shards(context.warehouse, "queries", outcome.files.get("queries", ()), columns)
    return [row for shard in shards for row in rows_from_arrow("queries", shard) if isinstance(row, Query)]


def as_result(undecided: Sequence[Query]) -> dict[str, Any]:
    """The result of a stage that leaves tasks undecided."""
    return {_UNDECIDED: [query.model_dump(mode="json") for query in undecided]}


def undecided_in(report: StageReport | None) -> tuple[Query, ...]:
    """The tasks that a stage left undecided."""
    return () if report is None else tuple(map(Query.model_validate, report.result.get(_UNDECIDED, ())))


def still_undecided(context: RoundContext) -> tuple[Query, ...]:
    """The tasks that the round before has tried without a decision."""
    return undecided_in(report_of(context.in_round(context.round - 1), TRIAL_STAGE)) if context.round > 1 else ()
