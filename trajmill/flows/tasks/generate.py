"""Generates the queries of a run, before anything is trained and fresh ones later, and walks programs for pathways."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, get_args

from trajmill.flows.configuration.config import Config, model_of
from trajmill.flows.configuration.judges import own_judge, prompts_of
from trajmill.flows.configuration.sections import EMBEDDED
from trajmill.flows.policies import policy as policies
from trajmill.flows.stage import RoundContext, StageOutcome, finished, report_of, stage
from trajmill.flows.tasks.rollout import attempts_of
from trajmill.pipelines.fan_out import divide
from trajmill.pipelines.propose import ProposeTasks, TryProposals, WalkPrograms
from trajmill.pipelines.reading.episodes import read_history
from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.pathway import Pathway
from trajmill.schemas.tables.query import Query, Split
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.environments.desktop.spec import DesktopSpec
from trajmill.stages.environments.kinds import AppFilesSpec
from trajmill.stages.graphs.explore.deny_list import packaged_deny_list
from trajmill.stages.queries.atomic.source import AtomicSource
from trajmill.stages.queries.base import (
    FreshRequest,
    NewQueries,
    QuerySource,
    SourceContext,
    UnseenApps,
    level_within_reach,
)
from trajmill.stages.queries.causal.source import causal_source
from trajmill.stages.queries.commands.source import CommandPlace, CommandSource, document_place, pathway_places
from trajmill.stages.queries.generate import WriterModel, fresh_queries, make_queries
from trajmill.stages.queries.graph.source import graph_source
from trajmill.stages.queries.pathways.programs import STAGE as PATHWAY_STAGE
from trajmill.stages.queries.pathways.programs import PathwayProgram, WalkBounds, packaged_programs, read_programs
from trajmill.stages.queries.pathways.source import PathwaySource
from trajmill.stages.queries.proposals.source import (
    STAGE,
    TRIAL_STAGE,
    TaskSuccess,
    curriculum_starting_points,
    read_human_tasks,
)
from trajmill.stages.queries.spec import AtomicApp, WalkReach
from trajmill.stages.queries.tasks.source import TaskSource
from trajmill.stages.queries.walk import own_queries
from trajmill.stages.rollout.base import plan_once
from trajmill.warehouse.layout import StageRun
from trajmill.warehouse.staging import forget

GENERATE = "generate"
FRESH = "fresh"
PATHWAYS = PATHWAY_STAGE


@stage(GENERATE, "generate", fixed_round=1)
def generate(context: RoundContext, at: StageRun) -> StageOutcome:
    """Make the validated queries of the run, and the policy that it starts with."""
    made = new_queries(context)
    if not any(query.split is Split.TRAIN for query in made.queries):
        first, count = next(iter(made.failures), None), len(made.failures)
        why = "; raise queries.train"
        if first is not None:
            why = f": {count} failures, the first of {first.input_id}: {' '.join(first.message.split())}"
        raise TrajmillError(f"no query to learn on could be made{why}")
    files = context.write(at, made._asdict())
    result = {"first_policy": policies.starting_policy(context, at).model_dump(mode="json", exclude_unset=True)}
    return StageOutcome(len(made.queries) + len(made.failures), len(made.queries), files, result)


@stage(FRESH, "rollout", is_wanted=lambda config: config.queries.fresh > 0)
def fresh(context: RoundContext, at: StageRun) -> StageOutcome:
    """Make new training queries, harder ones as success grows; the first round has only new ones anyway."""
    if context.round == 1:
        return StageOutcome(0, 0)
    queries, config = context.queries, context.config
    history = read_history(context.warehouse, context.run_id, context.round)
    tried = [queries[name] for name in history.shares() if queries[name].split is Split.TRAIN]
    averages = history.averages([query.query_id for query in tried])
    by_level: dict[int, list[float]] = defaultdict(list)
    for query in tried:
        by_level[query.difficulty].append(averages[query.query_id])
    success = {level: sum(found) / len(found) for level, found in by_level.items()}
    level = level_within_reach(success, config.queries.harder_above)
    request = FreshRequest(config.queries.fresh, level, int(content_id("fresh", config.run.seed, context.round), 16))
    sources = graph_sources(context)
    made = asyncio.run(fresh_queries(sources, source_context(context), request, list(queries.values())))
    files = context.write(at, {"queries": made})
    return StageOutcome(request.wanted, len(made), files, {"level": level})


def new_queries(context: RoundContext) -> NewQueries:
    """Make the queries of all splits. Raises BadInputError if there is no source, or one of its files is wrong."""
    config, made = context.config, NewQueries(())
    sources = [*graph_sources(context), *_other_sources(context)]
    if not isinstance(config.environment, AppFilesSpec):
        instances = config.rollout.concurrency
        made = asyncio.run(own_queries(config.environment, config.run.seed, instances, context.origin))
    if sources:
        made = made.with_more(queries_of(context, sources))
    if not (made.queries or made.failures):
        raise BadInputError(
            f"there are no queries: the environment {config.environment.kind!r} brings none; "
            "name a file of tasks (environment.tasks), or ask for queries by pathways (pathways.queries) or from "
            "graphs of apps (graphs.files, graphs.train)"
        )
    return made


def queries_of(context: RoundContext, sources: Sequence[QuerySource]) -> NewQueries:
    """Make the queries of some sources, worded by `models.writer`, or by the grammar if that is embedded."""
    config, endpoint, writer = context.config, context.config.models.writer, None
    if endpoint != EMBEDDED:
        in_flight = config.endpoints[endpoint].max_in_flight
        writer = WriterModel(model_of(config, endpoint), prompts_of(config).writer, in_flight)
    return asyncio.run(make_queries(sources, source_context(context), writer))


def source_context(context: RoundContext) -> SourceContext:
    config, queries = context.config, context.config.queries
    unseen = UnseenApps(queries.heldout_app_names, queries.validation_app_names if queries.validation else ())
    return SourceContext(config.environment, unseen, config.run.seed, context.origin, config.rollout.concurrency)


def graph_sources(context: RoundContext) -> list[QuerySource]:
    """The sources that can give new queries each round: annotated tasks, graphs of apps, causal pathways, plug-ins."""
    config, environment = context.config, context.config.environment
    sources: list[QuerySource] = []
    if isinstance(environment, AppFilesSpec):
        sources.append(TaskSource(environment.navigation_graph(), config.queries))
    if config.graphs.any_wanted:
        sources.append(graph_source(config.graphs))
    if config.causal.any_wanted:
        sources.append(causal_source(config.causal, environment))
    return [*sources, *(spec.open() for spec in config.sources.values())]


def _other_sources(context: RoundContext) -> Iterator[QuerySource]:
    config = context.config

    def commands(places: Sequence[CommandPlace], wanted: int) -> CommandSource:
        seen = [place for place in places if place.app not in config.queries.unseen_app_names]
        return CommandSource(seen, wanted, model_of(config, config.models.writer), prompts_of(config).writer.commands)

    if config.pathways.queries:
        yield pathway_source(context)
    if config.pathways.written:
        found, programs = found_pathways(context), programs_of(config)
        yield commands(pathway_places(programs, found, packaged_deny_list()), config.pathways.written)
    if config.atomic.drawn:
        wanted = {split: getattr(config.atomic, split.value, 0) for split in Split}
        yield AtomicSource(wanted, config.atomic.programs or get_args(AtomicApp))
    if config.atomic.written:
        documents = [document_place(kind, config.run.seed) for kind in config.atomic.documents]
        yield commands(documents, config.atomic.written)


def pathway_source(context: RoundContext) -> PathwaySource:
    return PathwaySource(found_pathways(context), programs_of(context.config), context.config.pathways.queries)


def programs_of(config: Config) -> tuple[PathwayProgram, ...]:
    """Read the configured programs. Raises BadInputError if the file is not named or wrong, or lacks a program."""
    settings = config.pathways
    if settings.file is None and not isinstance(config.environment, DesktopSpec):
        raise BadInputError("pathways.file is missing: name a YAML file of the programs to walk (see desktop.md)")
    return read_programs(settings.file or packaged_programs(), settings.programs)


@stage(PATHWAYS)
def pathways(context: RoundContext, at: StageRun) -> StageOutcome:
    """Walk each program once. Raises TrajmillError if no program has a pathway; the next call walks them again."""
    config, settings = context.config, context.config.pathways
    job = WalkPrograms(
        **context.common(at),
        environment=config.environment,
        bounds=WalkBounds(**settings.model_dump(include=set(WalkReach.model_fields))),
        second_opinion=model_of(config, settings.second_opinion) if settings.second_opinion else None,
        selection=prompts_of(config).writer.selection,
    )
    made = context.fan_out(job, programs_of(config), 1, config.environment.kind)
    found = made.rows("pathways")
    if not found:
        # The cause, e.g. a missing package, may be solved at the next call.
        forget(context.warehouse, at.staging(context.warehouse))
        raise TrajmillError(f"no pathway was found: {' '.join(next(iter(made.dropped)).split())}")
    return StageOutcome(found + sum(made.dropped.values()), found, made.files)


def found_pathways(context: RoundContext) -> list[Pathway]:
    """Return the pathways of the round, by id; the programs are walked first if they were not."""
    pathways(context)
    return sorted(context.rows(Pathway, [context.round]), key=lambda pathway: pathway.pathway_id)


PROPOSE = STAGE
TRY_PROPOSALS = TRIAL_STAGE
_UNDECIDED = "undecided"


def asks_for_tasks(config: Config) -> bool:
    return config.queries.curriculum + config.queries.screenshot > 0


@stage(PROPOSE, "rollout", is_wanted=asks_for_tasks)
def propose(context: RoundContext, at: StageRun) -> StageOutcome:
    """Let the writer model propose training queries. Raises BadInputError: an example task is wrong."""
    config, settings, writer = context.config, context.config.queries, context.config.models.writer
    assert settings.example_tasks is not None, "the configuration is refused without it"
    job = ProposeTasks(
        **context.common(at),
        environment=config.environment,
        writer=model_of(config, writer),
        prompts=prompts_of(config).writer,
        curriculum=settings.curriculum,
        screenshot=settings.screenshot,
        run_seed=config.run.seed,
        heldout_apps=settings.unseen_app_names,
        environments=config.rollout.concurrency,
        in_flight=config.endpoints[writer].max_in_flight,
        untried=_still_undecided(context),
    )
    starts = curriculum_starting_points(read_human_tasks(settings.example_tasks), task_successes(context))
    made = context.fan_out(job, [starts], 1, config.environment.kind)
    files, result = dict(made.files), {}
    if settings.try_proposals:
        files.pop("queries", None)
        result = _as_result(context.written_rows(Query, made.files))
    return StageOutcome(job.curriculum + job.screenshot, made.rows("queries"), files, result)


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


@stage(TRY_PROPOSALS, "rollout", is_wanted=lambda config: config.queries.try_proposals and asks_for_tasks(config))
def try_proposals(context: RoundContext, at: StageRun) -> StageOutcome:
    """Try each proposed task once; it becomes training data if the judge accepts; undecided ones are tried again."""
    proposals = (*_still_undecided(context), *_undecided_in(context, PROPOSE))
    attempts = plan_once(proposals, Purpose.TRIAL, context.config.run.seed, context.round)
    acts, judge = policies.acting_round(context), own_judge(context.config)
    agent = policies.acting(context, policies.policy_before(acts), temperature=0.0, untrained=acts.round == 1)
    job = TryProposals(**vars(attempts_of(context, at, agent)), judge=judge.spec, critics=judge.critics)
    made = context.fan_out(job, divide(attempts, context.workers), 1, context.config.environment.kind)
    decided = {query.query_id for query in context.written_rows(Query, made.files)}
    result = _as_result([query for query in proposals if query.query_id not in decided])
    return StageOutcome(len(attempts), len(attempts) - sum(made.dropped.values()), made.files, result)


def _as_result(undecided: Sequence[Query]) -> dict[str, Any]:
    return {_UNDECIDED: [query.model_dump(mode="json") for query in undecided]}


def _undecided_in(context: RoundContext, stage: str) -> tuple[Query, ...]:
    return tuple(map(Query.model_validate, finished(context, stage).result.get(_UNDECIDED, ())))


def _still_undecided(context: RoundContext) -> tuple[Query, ...]:
    before = context.in_round(context.round - 1)
    tried = context.round > 1 and report_of(before, TRIAL_STAGE) is not None
    return _undecided_in(before, TRIAL_STAGE) if tried else ()
