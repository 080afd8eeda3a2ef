"""Rolls out the round's policy on training queries."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from trajmill.flows.configuration.config import policy_gives_tokens
from trajmill.flows.policies.policy import acting, acting_round, policy_before
from trajmill.flows.stage import RoundContext, StageOutcome, finished, stage
from trajmill.pipelines.executors.cluster import check_workers
from trajmill.pipelines.models import ActingAgent
from trajmill.pipelines.reading.episodes import read_history
from trajmill.pipelines.rollout import RunAttempts, run_in_shards
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.query import Query, Split
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.critics.app_graph.probe import GraphProber
from trajmill.stages.curate.history import History, plan_attempts
from trajmill.stages.environments.pool.pool import EnvironmentLimits
from trajmill.stages.graphs.file import read_graph
from trajmill.stages.rollout.base import Attempt, Limits, Outcomes, plan_mixed, plan_rollouts
from trajmill.warehouse.layout import StageRun
from trajmill.warehouse.read import tuples
from trajmill.warehouse.staging import Durability

ROLLOUT = "rollout"
MIXED = "rollout_mixed"
_FROM_GUIDANCE = "from_guidance"


@stage(ROLLOUT, "rollout")
def rollout(context: RoundContext, at: StageRun) -> StageOutcome:
    """Attempt training queries; a query that rarely succeeds gets more attempts."""
    planned, history = dict[str, int](), read_history(context.warehouse, context.run_id, context.round)
    for share in shares(context, context.config.first_episodes):
        planned |= _new_groups(context, history, share, "plan")
    larger = _larger_groups(context, history)
    planned = dict(Counter(planned) + Counter(larger))
    attempts = plan_rollouts(training_queries(context), planned, context.config.run.seed, context.round)
    outcome = attempt_all(context, at, attempts, exploring_agent(context, acting_round(context)))
    return replace(outcome, result={_FROM_GUIDANCE: sum(larger.values())})


def taken_from_guidance(context: RoundContext) -> int:
    """Return the number of attempts without hints that the round made in place of guided ones."""
    return int(finished(context, ROLLOUT).result.get(_FROM_GUIDANCE, 0))


@stage(MIXED, "judge", is_wanted=lambda config: config.rollout.largest_group > 0)
def rollout_mixed(context: RoundContext, at: StageRun) -> StageOutcome:
    """Spend the rest of the attempts on queries that both succeeded and failed, then on queries not tried yet."""
    config, made_first = context.config, finished(context, ROLLOUT).count.rows_in
    total = sum(share.episodes for share in shares(context, config.unguided_episodes))
    total += taken_from_guidance(context) - made_first
    seed = int(content_id(MIXED, config.run.seed, context.round)[:12], 16)
    correct = context.correctness([context.round])
    tried, made = defaultdict[str, list[bool]](list), dict[str, int]()
    columns = ["query_id", "trajectory_id", "attempt", "purpose"]
    for query_id, name, number, purpose in tuples(context.read("trajectories", columns, [context.round])):
        if purpose == Purpose.TRAIN:
            made[query_id] = max(made.get(query_id, 0), number + 1)
            tried[query_id] += [correct[name]] if name in correct else []
    outcomes = {query_id: Outcomes(len(seen), sum(seen)) for query_id, seen in tried.items()}
    mixed = plan_mixed(outcomes, total, config.rollout.largest_group, seed)
    queries = training_queries(context)
    others = [query for query in queries if query.query_id not in made]
    others = others or [query for query in queries if query.query_id not in mixed]
    history = read_history(context.warehouse, context.run_id, context.round)
    planned = mixed | _new_groups(context, history, Share(others, total - sum(mixed.values())), MIXED)
    attempts = plan_rollouts(queries, planned, config.run.seed, context.round, made)
    outcome = attempt_all(context, at, attempts, exploring_agent(context, context))
    names = sorted(name for (name,) in context.written("trajectories", outcome.files, ["trajectory_id"]))
    return replace(outcome, result={"trajectories": names, "mixed": len(mixed)})


def _larger_groups(context: RoundContext, history: History) -> dict[str, int]:
    """Spend what guidance left over in the round before on queries that have been learned from and often fail.

    Their groups are larger by one than those of other queries: outcomes differ more often, and so do advantages.
    """
    guided = sum(share.episodes for share in shares(context, context.config.guided_episodes))
    if context.round == 1 or not guided:
        return {}
    before = context.read("trajectories", ["purpose"], [context.round - 1], {"purpose": [Purpose.GUIDED.value]})
    known = {query.query_id for query in training_queries(context)}
    unsettled = [name for name in history.unsettled() if name in known]
    random.Random(int(content_id("again", context.config.run.seed, context.round)[:12], 16)).shuffle(unsettled)
    size = context.config.rollout.group_size
    size += size > 1
    return dict.fromkeys(unsettled[: max(0, guided - before.num_rows) // size], size)


def _new_groups(context: RoundContext, history: History, share: Share, salt: str) -> dict[str, int]:
    config = context.config
    averages = history.averages([query.query_id for query in share.queries])
    if not config.train.reweight:
        averages = dict.fromkeys(averages, 0.0)
    seed = int(content_id(salt, config.run.seed, context.round)[:12], 16)
    planned = plan_attempts(averages, share.episodes, seed, config.rollout.group_size)
    return {each.query_id: each.attempts for each in planned}


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
    queries = [query for query in context.queries.values() if query.split is Split.TRAIN]
    resting = context.config.environment.resting_apps(context.round)
    return [query for query in queries if resting.isdisjoint(query.apps)]


class Share(NamedTuple):
    queries: list[Query]
    episodes: int


def shares(context: RoundContext, episodes: int) -> tuple[Share, Share]:
    """Return the training queries that share `episodes`, and those of added apps with as many a query beside them."""
    queries, added = training_queries(context), context.config.environment.added_apps()
    own = [query for query in queries if added.isdisjoint(query.apps)]
    more = [query for query in queries if not added.isdisjoint(query.apps)]
    return Share(own, episodes), Share(more, episodes * len(more) // max(1, len(own)))


def attempt_all(context: RoundContext, at: StageRun, attempts: Sequence[Attempt], agent: ActingAgent) -> StageOutcome:
    check_workers(context.config.beam, context.warehouse.store)
    made = run_in_shards(attempts_of(context, at, agent), attempts, context.workers, context.config.beam)
    return StageOutcome(len(attempts), len(attempts) - sum(made.dropped.values()), made.files)


def attempts_of(context: RoundContext, at: StageRun, agent: ActingAgent) -> RunAttempts:
    settings, files = context.config.rollout, context.config.judge.graphs or context.config.graphs.files
    within = EnvironmentLimits(step_seconds=settings.step_seconds, recycle_after=settings.recycle_after)
    graphs = {graph.app: graph for graph in map(read_graph, files if settings.probe else ())}
    return RunAttempts(
        **context.common(at),
        environment=context.config.environment,
        agent=agent,
        limits=Limits(
            seconds=settings.max_seconds,
            environment_tries=settings.environment_tries,
            environment=within.with_slow_calls(context.config.environment.slow_seconds),
            prober=GraphProber(graphs, settings.probe) if settings.probe else None,
        ),
        concurrency=settings.concurrency,
        durability=Durability(settings.store_after, settings.store_seconds),
    )
