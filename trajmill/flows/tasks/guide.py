"""Guides hard queries: walks reference paths where needed, writes hints, and attempts the queries with them."""

from __future__ import annotations

from operator import itemgetter
from typing import NamedTuple

import pyarrow.compute as pc

from trajmill.flows.configuration.config import model_or_none
from trajmill.flows.configuration.judges import prompts_of
from trajmill.flows.policies.policy import endpoint_of, untrained_policy
from trajmill.flows.stage import RoundContext, StageOutcome, finished, stage, tuples
from trajmill.flows.tasks.rollout import attempt_all, exploring_agent, training_queries
from trajmill.pipelines.fan_out import divide
from trajmill.pipelines.guide import GuideSpec, WriteGuidance
from trajmill.pipelines.models import ActingAgent
from trajmill.pipelines.reading.verdicts import read_history
from trajmill.schemas.tables.guidance import Guidance
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.agents.spec import ExplorerSpec, ReferenceSpec
from trajmill.stages.curate.history import History
from trajmill.stages.derive.planning.trials import MANUAL
from trajmill.stages.guidance.hard_queries import (
    ATTEMPTS_PER_QUERY,
    HardQueries,
    choose_sources,
    hard_queries,
    queries_to_walk,
)
from trajmill.stages.guidance.write import REFERENCE_PATH
from trajmill.stages.rollout.base import plan_demonstrations, plan_guided, plan_once
from trajmill.warehouse.layout import StageRun
from trajmill.warehouse.read import read_rows

REFERENCE = "reference"
GUIDE = "guide"
GUIDED = "rollout_guided"


@stage(REFERENCE, "guide")
def reference(context: RoundContext, at: StageRun) -> StageOutcome:
    """Walk the annotated paths of hard queries that have neither a success nor a walk."""
    walks = _reference_walks(context, range(context.round))
    queries = queries_to_walk(_hard_queries(context)[0], walks.by_query)
    attempts = plan_once(queries, Purpose.REFERENCE, context.config.run.seed, context.round)
    return attempt_all(context, at, attempts, ActingAgent(ReferenceSpec()))


@stage(GUIDE, "guide")
def guide(context: RoundContext, at: StageRun) -> StageOutcome:
    """Write hints for hard queries, from a success if one exists, else from the reference walk."""
    config, (hard, history) = context.config, _hard_queries(context)
    walks = _reference_walks(context, context.rounds_so_far)
    written = {row.source_trajectory for row in _guidance(context, range(context.round))}
    sources = choose_sources(hard, walks.by_query, written)
    unwritten = sources.unwritten
    describer, writer = (model_or_none(config, name) for name in (config.models.describer, config.models.writer))
    job = WriteGuidance(
        *(context.warehouse, at, context.origin),
        frozenset(walks.rounds_of).intersection(unwritten),
        history.rounds_of(unwritten) | walks.rounds_of,
        GuideSpec(describer, writer, prompts_of(config).guide),
        config.judge.concurrency,
    )
    made = context.fan_out(job, divide(unwritten, config.rollout.workers))
    return StageOutcome(len(unwritten), made.rows("guidance"), made.files, {"sources": sources.by_query})


@stage(GUIDED, "guide")
def rollout_guided(context: RoundContext, at: StageRun) -> StageOutcome:
    """Attempt the hard queries with their hints in the prompt, or demonstrate them."""
    config, demonstrate, seed = context.config, context.config.guidance.demonstrate, context.config.run.seed
    if demonstrate:
        shown = [query for query in _hard_queries(context, to_hint=False)[0].queries if query.path]
        attempts = plan_demonstrations(shown, config.guided_episodes, seed, context.round)
        agent = ActingAgent(ReferenceSpec(demonstrates=True))
        if demonstrate == "explorer":
            untrained = endpoint_of(context, untrained_policy(context, at))
            agent = ActingAgent(ExplorerSpec(demonstrates=True), untrained)
        return attempt_all(context, at, attempts, agent)
    sources, queries = finished(context, GUIDE).result["sources"], context.queries
    by_source = {row.source_trajectory: row for row in _guidance(context, context.rounds_so_far)}
    guided = [(queries[query_id], by_source[source]) for query_id, source in sources.items() if source in by_source]
    attempts = plan_guided(guided, config.guided_episodes, seed, context.round, ATTEMPTS_PER_QUERY)
    return attempt_all(context, at, attempts, exploring_agent(context, context))


def reference_paths_used(context: RoundContext) -> int:
    """Count the queries, so far in the run, whose hints or demonstrations came from their reference path."""
    used = {row.query_id for row in _guidance(context, context.rounds_so_far) if row.source == REFERENCE_PATH}
    if context.config.guidance.demonstrate is True:
        rows = context.read("trajectories", ["query_id", "purpose"], context.rounds_so_far)
        used.update(rows["query_id"].filter(pc.equal(rows["purpose"], Purpose.GUIDED.value)).to_pylist())
    return len(used)


class _Walks(NamedTuple):
    by_query: dict[str, str]
    """By query id, the trajectory that walks its path."""
    rounds_of: dict[str, int]
    """By trajectory id, its round."""


def _hard_queries(context: RoundContext, to_hint: bool = True) -> tuple[HardQueries, History]:
    """The hard queries and the judged attempts so far; none get hints that a demonstration would replace."""
    settings = context.config.guidance
    if not settings.enabled:
        return HardQueries((), {}), History({})
    history = read_history(context.warehouse, context.run_id, context.round + 1)
    if to_hint and settings.demonstrate:
        return HardQueries((), {}), history
    episodes = context.config.guided_episodes
    return hard_queries(training_queries(context), history, settings.after_failures, episodes), history


def _reference_walks(context: RoundContext, rounds: range) -> _Walks:
    """The walks of reference paths in some rounds that did not fail; of several of a query, the last by id."""
    rows = context.read("trajectories", ["trajectory_id", "query_id", "purpose", "reward", "round"], rounds)
    walks = _Walks({}, {})
    for trajectory_id, query_id, purpose, reward, number in sorted(tuples(rows), key=itemgetter(0)):
        if purpose == Purpose.REFERENCE and reward != 0.0:
            walks.by_query[query_id], walks.rounds_of[trajectory_id] = trajectory_id, number
    return walks


def _guidance(context: RoundContext, rounds: range) -> list[Guidance]:
    """The hints that were written for hard queries, without the manuals that are tried."""
    rows = read_rows(context.warehouse, Guidance, rounds=rounds, run_id=context.run_id)
    return sorted((row for row in rows if row.source != MANUAL), key=lambda row: row.guidance_id)
