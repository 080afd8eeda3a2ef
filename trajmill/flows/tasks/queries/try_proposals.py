"""Tries each proposed task once with the policy in force, before anything is trained on it, if it is asked for."""

from __future__ import annotations

from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.judges import own_judge
from trajmill.flows.context import RoundContext
from trajmill.flows.policies.policy import acting, acting_round, policy_before
from trajmill.flows.stage import StageOutcome, StageReport, finished, run_once
from trajmill.flows.tasks.queries.propose import (
    PROPOSE,
    as_result,
    asks_for_tasks,
    proposals_in,
    still_undecided,
    undecided_in,
)
from trajmill.flows.tasks.rollout import attempts_of
from trajmill.pipelines.propose import TryProposals, try_in_shards
from trajmill.pipelines.rollout import AttemptJudge
from trajmill.schemas.tables.round_summary import StageCount
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.queries.proposals.propose import TRIAL_STAGE
from trajmill.stages.rollout.base import plan_once
from trajmill.warehouse.layout import StageRun

TRY_PROPOSALS = TRIAL_STAGE


def tries_proposals(config: Config) -> bool:
    """Whether the configuration asks that proposed tasks are tried."""
    return config.queries.try_proposals and asks_for_tasks(config)


def try_proposals(context: RoundContext) -> StageReport:
    """Make one attempt at each proposed task; the judge's decision on it decides whether the task is trained on.

    A task whose attempt decides nothing is tried again in the next round.
    """
    if not tries_proposals(context.config):
        return StageReport(StageCount(stage=TRY_PROPOSALS, rows_in=0, rows_out=0, seconds=0.0, cost=0.0), {})

    def work(at: StageRun) -> StageOutcome:
        proposals = (*still_undecided(context), *undecided_in(finished(context, PROPOSE)))
        attempts = plan_once(proposals, Purpose.TRIAL, context.config.run.seed, context.round)
        acts = acting_round(context)
        agent = acting(context, policy_before(acts), temperature=0.0, untrained=acts.round == 1)
        judge = own_judge(context.config)
        job = TryProposals(attempts_of(context, at, agent), AttemptJudge(judge.spec, judge.critics))
        made = try_in_shards(job, attempts, context.config.rollout.workers, context.beam)
        outcome = StageOutcome(len(attempts), len(attempts) - sum(made.dropped.values()), made.files)
        decided = {query.query_id for query in proposals_in(context, outcome)}
        undecided = [query for query in proposals if query.query_id not in decided]
        return StageOutcome(outcome.rows_in, outcome.rows_out, outcome.files, as_result(undecided))

    return run_once(context, TRY_PROPOSALS, work)
