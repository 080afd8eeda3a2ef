"""Guides hard queries: walks reference paths where needed, writes hints, and attempts the queries with them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow.compute as pc

from trajmill.flows.configuration.judges import prompts_of
from trajmill.flows.configuration.model_specs import models_of, policy_gives_tokens
from trajmill.flows.context import RoundContext
from trajmill.flows.policies.policy import acting, endpoint_of, policy_before
from trajmill.flows.stage import StageOutcome, StageReport, finished, run_once
from trajmill.flows.tasks.generate import untrained_policy
from trajmill.flows.tasks.rollout import attempt_all, training_queries
from trajmill.pipelines.agents import ActingAgent
from trajmill.pipelines.fan_out import divide, fan_out
from trajmill.pipelines.guide import GuideSpec, WriteGuidance
from trajmill.pipelines.reading.verdicts import read_history
from trajmill.schemas.tables.guidance import Guidance
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.agents.spec import ExplorerSpec, ReferenceSpec
from trajmill.stages.curate.history import History
from trajmill.stages.derive.planning.trials import MANUAL
from trajmill.stages.guidance.base import REFERENCE_PATH
from trajmill.stages.guidance.hard_queries import (
    ATTEMPTS_PER_QUERY,
    HardQueries,
    choose_sources,
    hard_queries,
    queries_to_walk,
)
from trajmill.stages.rollout.base import plan_demonstrations, plan_guided, plan_once
from trajmill.warehouse.layout import StageRun
from trajmill.warehouse.read import read_rows, read_table

REFERENCE = "reference"
GUIDE = "guide"
GUIDED = "rollout_guided"


def reference(context: RoundContext) -> StageReport:
    """Walk the annotated paths of hard queries that have neither a success nor a walk."""

    def work(at: StageRun) -> StageOutcome:
        hard = _queries_to_hint(context, _history(context))
        walks = _reference_walks(context, range(context.round))
        attempts = plan_once(
            queries_to_walk(hard, walks.by_query),
            Purpose.REFERENCE,
            context.config.run.seed,
            context.round,
        )
        return attempt_all(context, at, attempts, ActingAgent(ReferenceSpec()))

    return run_once(context, REFERENCE, work)


def guide(context: RoundContext) -> StageReport:
    """Write hints for hard queries, from a success where there is one, else from the reference walk."""

    def work(at: StageRun) -> StageOutcome:
        history = _history(context)
        hard = _queries_to_hint(context, history)
        walks = _reference_walks(context, context.rounds_so_far)
        written = {row.source_trajectory for row in _guidance(context, range(context.round))}
        sources = choose_sources(hard, walks.by_query, written)
        unwritten = sources.unwritten
        job = WriteGuidance(
            context.warehouse,
            at,
            context.origin,
            frozenset(walks.rounds_of).intersection(unwritten),
            history.rounds_of(unwritten) | walks.rounds_of,
            guide_spec(context),
            context.config.judge.concurrency,
        )
        workers = context.config.rollout.workers
        made = fan_out(context.warehouse, at, divide(unwritten, workers), job, context.beam, workers)
        return StageOutcome(len(unwritten), made.rows("guidance"), made.files, {"sources": sources.by_query})

    return run_once(context, GUIDE, work)


def guide_spec(context: RoundContext) -> GuideSpec:
    """The describer and the writer of the configuration."""
    models = context.config.models
    return GuideSpec(
        describer=next(iter(models_of(context.config, [models.describer])), None),
        writer=next(iter(models_of(context.config, [models.writer])), None),
        prompts=prompts_of(context.config).guide,
    )


def rollout_guided(context: RoundContext) -> StageReport:
    """Attempt the hard queries with their hints in the prompt, or demonstrate them."""

    def work(at: StageRun) -> StageOutcome:
        if context.config.guidance.demonstrate:
            shown = [query for query in _hard_queries(context, _history(context)).queries if query.path]
            planned = plan_demonstrations(shown, _guided_episodes(context), context.config.run.seed, context.round)
            return attempt_all(context, at, planned, _demonstrator(context, at))
        sources = finished(context, GUIDE).result["sources"]
        by_source = {row.source_trajectory: row for row in _guidance(context, context.rounds_so_far)}
        queries = context.queries
        guided = [(queries[query_id], by_source[source]) for query_id, source in sources.items() if source in by_source]
        attempts = plan_guided(
            guided, _guided_episodes(context), context.config.run.seed, context.round, ATTEMPTS_PER_QUERY
        )
        agent = acting(
            context,
            policy_before(context),
            context.config.rollout.temperature,
            untrained=context.round == 1,
            with_tokens=policy_gives_tokens(context.config),
        )
        return attempt_all(context, at, attempts, agent)

    return run_once(context, GUIDED, work)


def _demonstrator(context: RoundContext, at: StageRun) -> ActingAgent:
    if context.config.guidance.demonstrate == "explorer":
        return ActingAgent(ExplorerSpec(demonstrates=True), endpoint_of(context, untrained_policy(context, at)))
    return ActingAgent(ReferenceSpec(demonstrates=True))


def reference_paths_used(context: RoundContext) -> int:
    """Number of queries, so far in the run, whose hints or demonstrations came from their reference path."""
    hinted = {row.query_id for row in _guidance(context, context.rounds_so_far) if row.source == REFERENCE_PATH}
    return len(hinted | _demonstrated(context))


def _demonstrated(context: RoundContext) -> set[str]:
    """The queries, so far in the run, whose reference path was walked to show it."""
    if context.config.guidance.demonstrate is not True:
        return set()
    rows = read_table(
        context.warehouse,
        "trajectories",
        ["query_id", "purpose"],
        rounds=context.rounds_so_far,
        run_id=context.run_id,
    )
    return set(rows["query_id"].filter(pc.equal(rows["purpose"], Purpose.GUIDED.value)).to_pylist())


class _Walks(NamedTuple):
    """Trajectories that walk reference paths."""

    by_query: dict[str, str]
    """By query id, the trajectory that walks its path."""
    rounds_of: dict[str, int]
    """By trajectory id, its round."""


def _history(context: RoundContext) -> History:
    """The judged attempts so far; empty where nothing asks for them."""
    if not context.config.guidance.enabled:
        return History({})
    return read_history(context.warehouse, context.run_id, context.round + 1)


def _queries_to_hint(context: RoundContext, history: History) -> HardQueries:
    """The hard queries, none where they are demonstrated: hints would be written for nobody."""
    return HardQueries((), {}) if context.config.guidance.demonstrate else _hard_queries(context, history)


def _hard_queries(context: RoundContext, history: History) -> HardQueries:
    settings = context.config.guidance
    if not settings.enabled:
        return HardQueries((), {})
    return hard_queries(training_queries(context), history, settings.after_failures, _guided_episodes(context))


def _guided_episodes(context: RoundContext) -> int:
    return context.config.rollout.episodes_per_round - context.config.unguided_episodes


def _reference_walks(context: RoundContext, rounds: range) -> _Walks:
    """The trajectories that walk reference paths, in some rounds."""
    rows = read_table(
        context.warehouse,
        "trajectories",
        ["query_id", "trajectory_id", "purpose", "reward", "round"],
        rounds=rounds,
        run_id=context.run_id,
    )
    walks = rows.filter(pc.equal(rows["purpose"], Purpose.REFERENCE.value)).drop_columns("purpose")
    found: Iterable[tuple[str, str, float | None, int]] = zip(
        *(column.to_pylist() for column in walks.columns), strict=True
    )
    walked = [
        (query_id, trajectory_id, number)
        for query_id, trajectory_id, reward, number in sorted(found, key=lambda row: row[1])
        if reward != 0.0
    ]
    by_query = {query_id: trajectory_id for query_id, trajectory_id, _ in walked}
    return _Walks(by_query, {trajectory_id: number for _, trajectory_id, number in walked})


def _guidance(context: RoundContext, rounds: range) -> list[Guidance]:
    """The hints that were written for hard queries; manuals that are tried are none."""
    rows = read_rows(context.warehouse, Guidance, rounds=rounds, run_id=context.run_id)
    return sorted((row for row in rows if row.source != MANUAL), key=lambda row: row.guidance_id)
