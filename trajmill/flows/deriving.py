"""Derives rows of one kind from the trajectories of each round that it was not derived from yet."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from statistics import fmean
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from trajmill.flows.configuration.config import Config, model_or_none
from trajmill.flows.configuration.sections import EMBEDDED
from trajmill.flows.policies.policy import acting, endpoint_of, policy_before
from trajmill.flows.serving.models_ready import models_ready, working_on
from trajmill.flows.stage import RoundContext, StageOutcome, do_batches, run_once
from trajmill.flows.tasks.rollout import attempt_all
from trajmill.pipelines.derive import DerivedFrom, DeriveKind
from trajmill.pipelines.fan_out import WrittenFiles, divide
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.names import instead_of
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.example import Example
from trajmill.schemas.tables.query import Query, Source, Split
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.derive.collected import LEARNED_FROM, Maker
from trajmill.stages.derive.kind_spec import GuidanceLift, KindSpec
from trajmill.stages.derive.planning.manual import guidance_by, kept_manuals, tried_manual
from trajmill.stages.derive.spec import PlanningSpec
from trajmill.stages.rollout.base import plan_trials
from trajmill.warehouse.layout import StageRun
from trajmill.warehouse.read import tuples
from trajmill.warehouse.screens import NewScreens

_MOST_IN_SHARD = 200
"""Trajectories of one shard; the rows of a shard are in memory together."""
_NAMED_TASKS = frozenset({Source.DAG, Source.CURRICULUM})
"""Queries whose `task` names a template; any other query is a task of its own."""


class DerivedData(NamedTuple):
    trajectories: int
    examples: int
    failures: int
    refused: Mapping[str, int]


class KindOfRun(NamedTuple):
    spec: KindSpec
    models: dict[str, str]
    made_by: str


def kind_named(config: Config, name: str) -> KindOfRun:
    """Return a kind as configured. Raises BadInputError: there is none, or an endpoint or a needed model is missing."""
    spec = config.derive.kind(name)
    models = {role: getattr(config.derive, role, "") or getattr(config.models, role) for role in spec.roles}
    for role, endpoint in models.items():
        if endpoint != EMBEDDED and endpoint not in config.endpoints:
            advice = instead_of(endpoint, [EMBEDDED, *config.endpoints])
            raise BadInputError(f"derive.{role}: there is no [endpoints.{endpoint}]; {advice}")
    spec.refuse_without(models, EMBEDDED)
    asked = {role: EMBEDDED if at == EMBEDDED else config.endpoints[at].identity() for role, at in models.items()}
    prompts = config.derive.prompts.load()
    settings = content_id(spec.identity(), asked, [list(prompts[key]) for key in spec.prompts], config.run.seed)[:8]
    return KindOfRun(spec, models, f"derive.{name}/{spec.version}-{settings}")


def derive_kind(config: Config, name: str) -> DerivedData:
    """Derive a kind from what is judged. Raises BadInputError (unknown, no model, or nothing judged), RunInUseError."""
    kind, context = kind_named(config, name), RoundContext.of(config, 0)
    newest = pc.max(context.read("judgements", ["round"])["round"]).as_py()
    if newest is None:
        raise BadInputError(
            f"run {context.run_id} in {context.warehouse.address} has no judged trajectory; run `trajmill evolve` first"
        )
    trials: AbstractContextManager[None] = nullcontext()
    if isinstance(kind.spec, PlanningSpec) and kind.spec.trials:
        # The policy and the roles of its agent try the manuals.
        trials = models_ready(config, context.warehouse.run(context.run_id))
    with working_on(context, list(kind.models.values())), trials:
        return _derive_rounds(context, kind, range(1, newest + 1))


def derive_in_round(context: RoundContext, name: str) -> DerivedData:
    """Derive a kind from the rounds so far, as a stage of a locked run. Raises BadInputError as `kind_named`."""
    return _derive_rounds(context, kind_named(context.config, name), range(1, context.round + 1))


def _derive_rounds(run: RoundContext, kind: KindOfRun, rounds: Iterable[int]) -> DerivedData:
    config, spec, refused, counts = run.config, kind.spec, Counter[str](), Counter[str]()
    now, policy = RoundContext.of(config), None
    if "policy" in kind.models:
        policy = endpoint_of(now, policy_before(now))
    stage = f"derive-{kind.made_by.partition('.')[2].replace('/', '-')}"

    def derive_round(context: RoundContext) -> None:
        def remaining(finished: Sequence[Mapping[str, Any]]) -> list[DerivedFrom]:
            done = {trajectory_id for batch in finished for trajectory_id in batch["trajectories"]}
            if isinstance(spec, PlanningSpec):
                return tasks_of_round(context, done, spec)
            if spec.once_per_failure:
                return failures_of_round(context, done)
            sources = sources_of_round(context, done, spec.once_per_screen)
            return with_branches(context, sources) if spec.with_branches else sources

        def work(at: StageRun, batch: Sequence[tuple[Any, ...]]) -> tuple[WrittenFiles, dict[str, list[str]]]:
            job = DeriveKind(
                **context.common(at),
                maker=Maker(spec.name, kind.made_by, context.origin),
                spec=spec,
                rounds=(context.round,),
                prompts=config.derive.prompts.load(),
                writer=model_or_none(config, kind.models.get("writer", EMBEDDED)),
                describer=model_or_none(config, kind.models.get("describer", EMBEDDED)),
                policy=policy,
                curate=config.curate,
                concurrency=config.derive.concurrency,
            )
            sources = [
                DerivedFrom(name, steps and tuple(steps), tuple(others), lift and GuidanceLift(*lift))
                for name, steps, others, lift in batch
            ]
            made = context.fan_out(job, divide(sources, context.workers, _MOST_IN_SHARD))
            if isinstance(spec, PlanningSpec) and spec.trials:
                made = with_tried_manuals(context, at, made, spec.trials)
            counts.update(trajectories=len(sources), examples=made.rows("examples"), failures=made.rows("failures"))
            refused.update(made.dropped)
            crops = NewScreens(context.warehouse, at, context.origin, kind.made_by).write()
            result = {"trajectories": [source.trajectory_id for source in sources]}
            return WrittenFiles({**made.files, "screens": crops}), result

        do_batches(context, stage, kind.made_by, f"derive {spec.name}", remaining, work)

    for number in rounds:
        derive_round(run.in_round(number))
    return DerivedData(counts["trajectories"], counts["examples"], counts["failures"], dict(refused))


class Attempted(NamedTuple):
    """A finished attempt; the fields are columns of table `trajectories`."""

    trajectory_id: str
    query_id: str
    purpose: str
    steps: int
    reward: float | None


def tasks_of_round(context: RoundContext, done: Collection[str], spec: PlanningSpec) -> list[DerivedFrom]:
    """Return a source for each task with a success in the round that has no manual from it yet, in order of their ids.

    If plans are distilled, a task with attempts and without a success has one, too. At most `spec.successes` of a task
    are used, of different queries first, then those without guidance, and of these the shortest. `done` are the
    trajectories of the round that a manual was derived from.
    """
    attempts, queries, judged = _attempts(context), context.all_queries, context.correctness()
    tasks = {one.trajectory_id: _task_of(queries[one.query_id]) for one in attempts}
    finished = {tasks[trajectory_id] for trajectory_id in done}
    found: dict[str, list[Attempted]] = defaultdict(list)
    failed: dict[str, Attempted] = {}
    for one in attempts:
        task, split = tasks[one.trajectory_id], queries[one.query_id].split
        if one.purpose not in LEARNED_FROM or split is not Split.TRAIN or task in finished:
            continue
        if judged.get(one.trajectory_id):
            found[task].append(one)
        elif one.trajectory_id in judged:
            failed.setdefault(task, one)
    if spec.distil:
        found.update({task: [one] for task, one in failed.items() if task not in found})
    lifts, sources = lifts_by_task(attempts, tasks), []
    for task, made in found.items():
        # Each query comes once before any comes again.
        before, turns = Counter[str](), dict[str, int]()
        for one in made:
            turns[one.trajectory_id] = before[one.query_id]
            before[one.query_id] += 1
        first, *others = sorted(turns, key=turns.__getitem__)[: spec.successes]
        sources.append(DerivedFrom(first, None, tuple(others), lifts.get(task)))
    return sorted(sources)


def failures_of_round(context: RoundContext, done: Collection[str]) -> list[DerivedFrom]:
    """Return the failed unguided attempts that are not `done`, each with the shortest success at its query, if any."""
    judged, successes = context.correctness(), dict[str, str]()
    trained = [one for one in _attempts(context) if context.all_queries[one.query_id].split is Split.TRAIN]
    for one in trained:
        if one.purpose in LEARNED_FROM and judged.get(one.trajectory_id):
            successes.setdefault(one.query_id, one.trajectory_id)
    failed = [one for one in trained if one.purpose == Purpose.TRAIN and judged.get(one.trajectory_id) is False]
    return sorted(
        DerivedFrom(one.trajectory_id, None, (successes[one.query_id],) if one.query_id in successes else ())
        for one in failed
        if one.trajectory_id not in done
    )


def lifts_by_task(attempts: Sequence[Attempted], tasks: Mapping[str, str]) -> dict[str, GuidanceLift]:
    """Success with and without guidance by task, over the queries with both; each counts once, by its mean."""
    rewarded: dict[tuple[str, str], dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for one in attempts:
        if one.reward is not None and one.purpose in (Purpose.TRAIN, Purpose.GUIDED):
            rewarded[tasks[one.trajectory_id], one.query_id][one.purpose].append(one.reward >= 1)
    compared: dict[str, list[GuidanceLift]] = defaultdict(list)
    for (task, _), passed in rewarded.items():
        if len(passed) == len((Purpose.TRAIN, Purpose.GUIDED)):
            compared[task].append(GuidanceLift(fmean(passed[Purpose.TRAIN]), fmean(passed[Purpose.GUIDED])))
    return {
        task: GuidanceLift(fmean(one.without for one in each), fmean(one.guided for one in each))
        for task, each in compared.items()
    }


def _task_of(query: Query) -> str:
    return query.task if query.source in _NAMED_TASKS else query.query_id


def sources_of_round(context: RoundContext, done: Collection[str], once_per_screen: bool) -> list[DerivedFrom]:
    """The judged training trajectories of a round that are not `done`; `once_per_screen` uses a screen once a run."""
    learned = {one.trajectory_id for one in _attempts(context) if one.purpose in LEARNED_FROM}
    judged = sorted(learned & context.correctness().keys())
    if not once_per_screen:
        return [DerivedFrom(trajectory_id) for trajectory_id in judged if trajectory_id not in done]
    earlier = context.read("steps", ["screen_before"], range(context.round))["screen_before"].combine_chunks()
    steps = context.read("steps", ["trajectory_id", "index", "screen_before"], [context.round])
    steps = steps.filter(pc.is_in(steps["trajectory_id"], pa.array(judged, pa.string())))
    new = steps.filter(pc.invert(pc.is_in(steps["screen_before"], earlier)))
    shown: set[str] = set()
    firsts: dict[str, tuple[int, ...]] = {}
    for trajectory_id, index, screen_id in sorted(tuples(new)):
        if screen_id not in shown:
            shown.add(screen_id)
            firsts[trajectory_id] = (*firsts.get(trajectory_id, ()), index)
    return [DerivedFrom(trajectory_id, steps_) for trajectory_id, steps_ in firsts.items() if trajectory_id not in done]


def with_branches(context: RoundContext, sources: Sequence[DerivedFrom]) -> list[DerivedFrom]:
    """Return the sources with the branches from a screen of theirs; those of a branch include itself."""
    parents = dict(tuples(context.read("trajectories", ["trajectory_id", "parent_id"], [context.round])))
    found: dict[str, list[str]] = defaultdict(list)
    for name, parent in sorted(parents.items()):
        found[parent or ""].append(name)
    return [one._replace(others=tuple(found[parents[one.trajectory_id] or one.trajectory_id])) for one in sources]


def _attempts(context: RoundContext) -> list[Attempted]:
    """Return the finished attempts of a round: those without guidance first, and of these the shortest."""
    rows = context.read("trajectories", Attempted._fields, [context.round], {"status": ["finished"]})
    attempts = (Attempted(*values) for values in tuples(rows))
    return sorted(attempts, key=lambda one: (one.purpose == Purpose.GUIDED, one.steps, one.trajectory_id))


def with_tried_manuals(context: RoundContext, at: StageRun, made: WrittenFiles, most: int) -> WrittenFiles:
    """Try manuals at `most` queries each, in attempts that no training and figure counts; keep those that help."""
    if not (manuals := context.written_rows(Example, made.files)):
        return made
    by_task: dict[str, list[Query]] = {}
    for query in sorted(context.all_queries.values(), key=lambda query: query.query_id):
        if query.split is Split.TRAIN:
            by_task.setdefault(_task_of(query), []).append(query)
    guided = {}
    for manual in manuals:
        queries = by_task[_task_of(context.all_queries[manual.query_id])]
        guided[manual.example_id] = guidance_by(manual, queries, most, context.origin)
    pairs = [pair for of_manual in guided.values() for pair in of_manual]

    def work(trial: StageRun) -> StageOutcome:
        attempts = plan_trials(pairs, context.config.run.seed, context.round)
        temperature, untrained = context.config.rollout.temperature, context.round == 1
        agent = acting(context, policy_before(context), temperature, untrained=untrained)
        outcome = attempt_all(context, trial, attempts, agent)
        guidance = context.write(trial, {"guidance": [row for _, row in pairs]}, "guidance")
        # The reward of each finished attempt: without guidance by query, with guidance by its id.
        rewards: dict[str, dict[str, Any]] = {"without": {}, "guided": {}}
        columns = ["query_id", "guidance_id", "status", "reward"]
        for query_id, guidance_id, status, reward in context.written("trajectories", outcome.files, columns):
            if status == "finished":
                rewards["guided" if guidance_id else "without"][guidance_id or query_id] = reward
        return StageOutcome(outcome.rows_in, outcome.rows_out, {**outcome.files, **guidance}, rewards)

    rewards = run_once(context, f"try-{at.stage}-{at.attempt}", work).result
    tried = {
        example_id: tried_manual(
            [(query.query_id, row.guidance_id) for query, row in of_manual], rewards["without"], rewards["guided"]
        )
        for example_id, of_manual in guided.items()
    }
    kept, refused = kept_manuals(manuals, tried, context.origin)
    written = context.write(at, {"examples": kept, "refusals": refused}, "tried")
    refusals = [*made.files.get("refusals", ()), *written.get("refusals", [])]
    files = {**made.files, "examples": written.get("examples", []), "refusals": refusals}
    return WrittenFiles(files, Counter(made.dropped) + Counter(row.reason for row in refused))
