"""Rolls out the round's policy on training queries."""

from __future__ import annotations

from collections.abc import Sequence

from trajmill.flows.configuration.config import policy_gives_tokens
from trajmill.flows.policies.policy import acting, acting_round, policy_before
from trajmill.flows.stage import RoundContext, StageOutcome, stage
from trajmill.pipelines.models import ActingAgent
from trajmill.pipelines.reading.episodes import read_history
from trajmill.pipelines.rollout import RunAttempts, run_in_shards
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.curate.history import History, plan_attempts
from trajmill.stages.environments.pool.pool import EnvironmentLimits
from trajmill.stages.rollout.base import Attempt, Limits, plan_rollouts
from trajmill.warehouse.layout import StageRun
from trajmill.warehouse.staging import Durability

ROLLOUT = "rollout"


@stage(ROLLOUT, "rollout")
def rollout(context: RoundContext, at: StageRun) -> StageOutcome:
    """Attempt training queries; a query that rarely succeeds gets more attempts."""
    config = context.config
    history = read_history(context.warehouse, context.run_id, context.round)
    queries = without_solved(training_queries(context), history, config.queries.retire_after)
    averages = history.averages([query.query_id for query in queries])
    if not config.train.reweight:
        averages = dict.fromkeys(averages, 0.0)
    seed = int(content_id("plan", config.run.seed, context.round)[:12], 16)
    planned = plan_attempts(averages, config.unguided_episodes, seed, config.rollout.group_size)
    tries = {plan.query_id: plan.attempts for plan in planned}
    return attempt_all(
        context,
        at,
        plan_rollouts(queries, tries, config.run.seed, context.round),
        exploring_agent(context, acting_round(context)),
    )


def exploring_agent(context: RoundContext, acts: RoundContext) -> ActingAgent:
    """The agent of the policy in force in round `acts`, at the temperature of rollouts, with tokens where it can."""
    return acting(
        context,
        policy_before(acts),
        context.config.rollout.temperature,
        untrained=acts.round == 1,
        with_tokens=policy_gives_tokens(context.config),
    )


def training_queries(context: RoundContext) -> list[Query]:
    return [query for query in context.queries.values() if query.split is Split.TRAIN]


def without_solved(queries: Sequence[Query], history: History, retire_after: int) -> Sequence[Query]:
    """Leave out queries that were solved `retire_after` times in a row, unless nothing else is left; 0 keeps all."""
    if retire_after == 0:
        return queries
    streaks = history.streaks()
    return [query for query in queries if streaks.get(query.query_id, 0) < retire_after] or queries


def attempt_all(context: RoundContext, at: StageRun, attempts: Sequence[Attempt], agent: ActingAgent) -> StageOutcome:
    made = run_in_shards(attempts_of(context, at, agent), attempts, context.workers, context.config.beam)
    return StageOutcome(len(attempts), len(attempts) - sum(made.dropped.values()), made.files)


def attempts_of(context: RoundContext, at: StageRun, agent: ActingAgent) -> RunAttempts:
    settings = context.config.rollout
    return RunAttempts(
        warehouse=context.warehouse,
        at=at,
        origin=context.origin,
        environment=context.environment,
        agent=agent,
        limits=Limits(
            seconds=settings.max_seconds,
            environment_tries=settings.environment_tries,
            environment=EnvironmentLimits(step_seconds=settings.step_seconds, recycle_after=settings.recycle_after),
        ),
        concurrency=settings.concurrency,
        durability=Durability(settings.store_after, settings.store_seconds),
    )
