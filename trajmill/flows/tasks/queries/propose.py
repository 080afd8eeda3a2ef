"""Lets a model propose new training tasks, if the configuration asks for them."""

from __future__ import annotations

from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.model_specs import model_of
from trajmill.flows.configuration.prompts import prompts_of
from trajmill.flows.context import RoundContext
from trajmill.flows.stage import StageOutcome, StageReport, run_once
from trajmill.flows.tasks.queries.undecided import held_back, still_undecided
from trajmill.pipelines.propose import ProposalCounts, ProposeTasks, propose_new_tasks
from trajmill.pipelines.reading.history import read_history
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.query import Split
from trajmill.schemas.tables.round_summary import StageCount
from trajmill.stages.queries.proposals.starts import (
    STAGE,
    StartingPoint,
    TaskSuccess,
    curriculum_starting_points,
    read_human_tasks,
)
from trajmill.stages.rollout.base import Limits
from trajmill.warehouse.layout import StageRun

PROPOSE = STAGE


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
