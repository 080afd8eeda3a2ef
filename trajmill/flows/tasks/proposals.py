"""Lets a model propose new training tasks, and tries each once before it is trained on, if the configuration says so.

A task that is tried first is in no table until the judge has decided about its attempt. Until then it is in the result
of the stage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.judges import own_judge, prompts_of
from trajmill.flows.configuration.model_specs import model_of
from trajmill.flows.policies.policy import acting, acting_round, policy_before
from trajmill.flows.stage import RoundContext, StageOutcome, finished, once, report_of
from trajmill.flows.tasks.rollout import attempts_of
from trajmill.pipelines.propose import ProposalCounts, ProposeTasks, TryProposals, propose_new_tasks, try_in_shards
from trajmill.pipelines.reading.verdicts import read_history
from trajmill.pipelines.rollout import AttemptJudge
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.query import Query, Split
from trajmill.schemas.tables.registry import rows_from_arrow
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.queries.proposals.propose import TRIAL_STAGE
from trajmill.stages.queries.proposals.starts import STAGE, TaskSuccess, curriculum_starting_points, read_human_tasks
from trajmill.stages.rollout.base import Limits, plan_once
from trajmill.warehouse.layout import StageRun
from trajmill.warehouse.read import read_shards
from trajmill.warehouse.shards import DataFile, file_schema

PROPOSE = STAGE
TRY_PROPOSALS = TRIAL_STAGE
_UNDECIDED = "undecided"
"""Key of the undecided tasks in the result of a stage."""


def asks_for_tasks(config: Config) -> bool:
    return config.queries.curriculum + config.queries.screenshot > 0


def tries_proposals(config: Config) -> bool:
    return config.queries.try_proposals and asks_for_tasks(config)


@once(PROPOSE)
def propose(context: RoundContext, at: StageRun) -> StageOutcome:
    """Let the writer model propose training queries for this round and the later ones.

    Raises:
        BadInputError: there is no file of example tasks, or a line of it is not a task.
    """
    config, settings, writer = context.config, context.config.queries, context.config.models.writer
    if settings.example_tasks is None:
        raise BadInputError("queries.example_tasks is missing: name a file of tasks that people wrote")
    job = ProposeTasks(
        warehouse=context.warehouse,
        at=at,
        origin=context.origin,
        environment=context.environment,
        writer=model_of(config, writer),
        prompts=prompts_of(config).proposals,
        wanted=ProposalCounts(settings.curriculum, settings.screenshot),
        run_seed=config.run.seed,
        heldout_apps=settings.unseen_app_names,
        limits=Limits(seconds=config.rollout.max_seconds),
        environments=config.rollout.concurrency,
        in_flight=config.endpoints[writer].max_in_flight,
        untried=_still_undecided(context),
    )
    starts = curriculum_starting_points(read_human_tasks(settings.example_tasks), task_successes(context))
    made = propose_new_tasks(job, starts, context.beam)
    files, result = made.files, {}
    if settings.try_proposals:
        files = {table: shards for table, shards in files.items() if table != "queries"}
        result = _as_result(_written_queries(context, made.files))
    return StageOutcome(sum(job.wanted), made.rows("queries"), files, result)


def task_successes(context: RoundContext) -> list[TaskSuccess]:
    """The policy's success at each training query that it tried before this round; the query tried last comes last."""
    queries = context.queries
    shares = read_history(context.warehouse, context.run_id, context.round).shares()
    tried = ((queries[query_id], share) for query_id, share in shares.items())
    return [
        TaskSuccess(query.instruction, query.platform, query.apps, share)
        for query, share in tried
        if query.split is Split.TRAIN
    ]


@once(TRY_PROPOSALS)
def try_proposals(context: RoundContext, at: StageRun) -> StageOutcome:
    """Make one attempt at each proposed task; the judge's decision on it decides whether the task is trained on.

    A task whose attempt decides nothing is tried again in the next round.
    """
    proposals = (*_still_undecided(context), *_undecided_in(context, PROPOSE))
    attempts = plan_once(proposals, Purpose.TRIAL, context.config.run.seed, context.round)
    acts = acting_round(context)
    agent = acting(context, policy_before(acts), temperature=0.0, untrained=acts.round == 1)
    judge = own_judge(context.config)
    job = TryProposals(attempts_of(context, at, agent), AttemptJudge(judge.spec, judge.critics))
    made = try_in_shards(job, attempts, context.config.rollout.workers, context.beam)
    decided = {query.query_id for query in _written_queries(context, made.files)}
    result = _as_result([query for query in proposals if query.query_id not in decided])
    return StageOutcome(len(attempts), len(attempts) - sum(made.dropped.values()), made.files, result)


def _written_queries(context: RoundContext, files: Mapping[str, Sequence[DataFile]]) -> list[Query]:
    """The queries that a stage has written and not committed yet."""
    shards = read_shards(context.warehouse, "queries", files.get("queries", ()), file_schema("queries").names)
    return [row for shard in shards for row in rows_from_arrow("queries", shard) if isinstance(row, Query)]


def _as_result(undecided: Sequence[Query]) -> dict[str, Any]:
    return {_UNDECIDED: [query.model_dump(mode="json") for query in undecided]}


def _undecided_in(context: RoundContext, stage: str) -> tuple[Query, ...]:
    return tuple(map(Query.model_validate, finished(context, stage).result.get(_UNDECIDED, ())))


def _still_undecided(context: RoundContext) -> tuple[Query, ...]:
    """The tasks that the previous round has tried without a decision."""
    before = context.in_round(context.round - 1)
    tried = context.round > 1 and report_of(before, TRIAL_STAGE) is not None
    return _undecided_in(before, TRIAL_STAGE) if tried else ()
