"""Judges the trajectories of a round, and those that earlier rounds could not judge; guides its hard queries.

A judge stage of a round runs once and reads only final rows of earlier rounds. So a round that is killed and started
again has the same work.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from trajmill.flows.configuration.config import model_or_none
from trajmill.flows.configuration.judges import NamedJudge, own_judge, prompts_of
from trajmill.flows.policies.policy import acting_round, endpoint_of, untrained_policy
from trajmill.flows.progress import progress
from trajmill.flows.stage import RoundContext, StageOutcome, finished, stage
from trajmill.flows.tasks.rollout import MIXED, attempt_all, exploring_agent, shares, taken_from_guidance
from trajmill.pipelines.fan_out import WrittenFiles, divide
from trajmill.pipelines.judge import JudgeTrajectories, RejudgeIdentity, WriteGuidance
from trajmill.pipelines.models import ActingAgent
from trajmill.pipelines.reading.episodes import read_episodes, read_history
from trajmill.schemas.episode import Episode
from trajmill.schemas.tables.guidance import Guidance
from trajmill.schemas.tables.policy_version import JudgeQuality
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.schemas.tables.verdict import Calibration, Channel
from trajmill.stages.agents.spec import ExplorerSpec, ReferenceSpec
from trajmill.stages.critics.calibration.agreement import Precision, calibrate, precise_enough
from trajmill.stages.critics.judge import STAGE, Unjudged, to_judge_again
from trajmill.stages.curate.history import History
from trajmill.stages.derive.planning.manual import MANUAL
from trajmill.stages.environments.base import MeasuresDistance
from trajmill.stages.guidance.write import (
    ATTEMPTS_PER_QUERY,
    REFERENCE_PATH,
    HardQueries,
    choose_sources,
    hard_queries,
    queries_to_walk,
)
from trajmill.stages.rollout.base import plan_branches, plan_demonstrations, plan_guided, plan_once
from trajmill.stages.rollout.branch import choose_points
from trajmill.warehouse.layout import StageRun
from trajmill.warehouse.read import read_rows, tuples
from trajmill.warehouse.screens import WarehouseScreens

JUDGE = "judge"
JUDGE_MIXED = "judge_mixed"
JUDGE_GUIDED = "judge_guided"
CALIBRATE = "calibrate"
_DECISION = "trajectory"


@stage(JUDGE, "judge")
def judge(context: RoundContext, at: StageRun) -> StageOutcome:
    """Judge the unguided attempts, and imports that could not be judged before."""
    late = unjudged_of_earlier_rounds(context, Purpose.TRAIN, Purpose.IMPORTED)
    return judge_all(context, at, trajectories_of_round(context, Purpose.TRAIN), late)


@stage(JUDGE_MIXED, "judge", is_wanted=lambda config: config.rollout.largest_group > 0)
def judge_mixed(context: RoundContext, at: StageRun) -> StageOutcome:
    """Judge the attempts that dynamic sampling has added."""
    return judge_all(context, at, finished(context, MIXED).result["trajectories"])


@stage(JUDGE_GUIDED, "guide")
def judge_guided(context: RoundContext, at: StageRun) -> StageOutcome:
    late = unjudged_of_earlier_rounds(context, Purpose.GUIDED, Purpose.BRANCH)
    return judge_all(context, at, trajectories_of_round(context, Purpose.GUIDED, Purpose.BRANCH), late)


def trajectories_of_round(context: RoundContext, *purposes: Purpose) -> list[str]:
    """The ids of the round's trajectories of some purposes, sorted within each purpose."""
    rows = sorted(tuples(context.read("trajectories", ["trajectory_id", "purpose"], [context.round])))
    return [trajectory_id for purpose in purposes for trajectory_id, found in rows if found == purpose]


def judge_all(
    context: RoundContext, at: StageRun, trajectory_ids: Sequence[str], late: Sequence[Unjudged] = ()
) -> StageOutcome:
    trajectories = [*(one.trajectory_id for one in late), *trajectory_ids]
    rounds = {context.round, *(one.round for one in late)}
    tried = {one.trajectory_id: one.tried for one in late}
    made = judge_shards(context, at, own_judge(context.config), trajectories, rounds, tried)
    return StageOutcome(len(trajectories), made.rows("judgements"), made.files)


def judge_shards(
    context: RoundContext,
    at: StageRun,
    judge: NamedJudge,
    trajectories: Sequence[str],
    rounds: Collection[int],
    tried: Mapping[str, int],
    again: RejudgeIdentity | None = None,
) -> WrittenFiles:
    job = JudgeTrajectories(
        **context.common(at),
        judge=judge.spec,
        critics=judge.critics,
        rounds=tuple(sorted(rounds)),
        tried=tried,
        rejudge=again,
    )
    return context.fan_out(job, divide(trajectories, context.workers))


def unjudged_of_earlier_rounds(context: RoundContext, *purposes: Purpose) -> list[Unjudged]:
    """The trajectories from earlier rounds to judge again, sorted by round and id within each purpose."""
    earlier = range(context.round)
    failures = context.read("failures", ["input_id"], earlier, {"stage": [STAGE]})
    failed_tries = Counter(failures["input_id"].to_pylist())
    if not failed_tries:
        return []
    judged = set(context.read_judgements("trajectory_id", rounds=earlier)["trajectory_id"].to_pylist())
    rows = list(tuples(context.read("trajectories", ["round", "trajectory_id", "purpose"], earlier)))
    return [
        unjudged
        for purpose in purposes
        for unjudged in to_judge_again({name: r for r, name, found in rows if found == purpose}, failed_tries, judged)
    ]


@stage(CALIBRATE, "derive")
def calibrate_judge(context: RoundContext, at: StageRun) -> StageOutcome:
    """Count how often the judge and the programmatic check agree, per level."""
    trajectories = trajectories_of_round(context, Purpose.TRAIN, Purpose.GUIDED, Purpose.BRANCH)
    environment = context.config.environment
    distances = environment.goal_distances() if isinstance(environment, MeasuresDistance) else None
    quality = calibrate(_judged_episodes(context, trajectories), WarehouseScreens(context.warehouse), distances)
    judged = context.read_judgements("trajectory_id", rounds=[context.round])["trajectory_id"].to_pylist()
    count = len(set(trajectories).intersection(judged))
    return StageOutcome(len(trajectories), count, result={"judge": [level.model_dump() for level in quality]})


def _judged_episodes(context: RoundContext, trajectories: Sequence[str]) -> Iterator[Episode]:
    """Yield episodes of the round, read a range at a time: all of them do not fit into memory."""
    for part in divide(sorted(trajectories), workers=1):
        yield from read_episodes(context.warehouse, context.run_id, part, [context.round], with_verdicts=True).values()


def judge_quality(context: RoundContext) -> tuple[JudgeQuality, ...]:
    return tuple(map(JudgeQuality.model_validate, finished(context, CALIBRATE).result["judge"]))


def judge_precision(context: RoundContext) -> Precision:
    """Whether the judge's precision reaches its floor, by rewards or else by the newest calibration of its version."""
    floor = context.config.judge.precision_floor
    measured = precise_enough((each for each in judge_quality(context) if each.level == _DECISION), floor)
    if measured is not Precision.UNKNOWN:
        return measured
    judged = tuples(context.read_judgements("made_by", "rule", rounds=[context.round]))
    calibrations = sorted(read_rows(context.warehouse, Calibration), key=lambda row: row.number)
    newest = {(row.made_by, row.rule): row for row in calibrations if row.channel is None}
    names = {"true_positive", "false_positive", "true_negative", "false_negative"}
    counts = (
        JudgeQuality(level=_DECISION, **newest[version].model_dump(include=names))
        for version in sorted(set(judged))
        if version in newest
    )
    calibrated = precise_enough(counts, floor)
    if calibrated is Precision.UNKNOWN:
        why = (
            "the judge asks the programmatic check, so that its precision cannot be measured by that check"
            if Channel.PROGRAMMATIC in context.config.judge.channels
            else "nothing is known of the judge's precision: there are no programmatic rewards of what it called "
            "correct, and no calibration of this version of it; `trajmill calibrate --labels FOLDER` measures it"
        )
        progress().show(f"round {context.round}: {why}")
    return calibrated


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
    walks = _reference_walks(context, range(context.round + 1))
    written = {row.source_trajectory for row in _guidance(context, range(context.round))}
    sources = choose_sources(hard, walks.by_query, written)
    unwritten = sources.unwritten
    job = WriteGuidance(
        **context.common(at),
        references=frozenset(walks.rounds_of).intersection(unwritten),
        rounds_of=history.rounds_of(unwritten) | walks.rounds_of,
        describer=model_or_none(config, config.models.describer),
        writer=model_or_none(config, config.models.writer),
        prompts=prompts_of(config).guide,
        concurrency=config.judge.concurrency,
    )
    made = context.fan_out(job, divide(unwritten, context.workers))
    return StageOutcome(len(unwritten), made.rows("guidance"), made.files, {"sources": sources.by_query})


@stage(GUIDED, "guide")
def rollout_guided(context: RoundContext, at: StageRun) -> StageOutcome:
    """Attempt the hard queries with their hints in the prompt, or demonstrate them."""
    config, demonstrate, seed = context.config, context.config.guidance.demonstrate, context.config.run.seed
    episodes = sum(share.episodes for share in shares(context, config.guided_episodes))
    episodes -= taken_from_guidance(context)
    if demonstrate:
        shown = [query for query in _hard_queries(context, to_hint=False)[0].queries if query.path]
        attempts = plan_demonstrations(shown, episodes, seed, context.round)
        agent = ActingAgent(ReferenceSpec(demonstrates=True))
        if demonstrate == "explorer":
            untrained = endpoint_of(context, untrained_policy(context, at))
            agent = ActingAgent(ExplorerSpec(demonstrates=True), untrained)
        return attempt_all(context, at, attempts, agent)
    sources, queries = finished(context, GUIDE).result["sources"], context.queries
    by_source = {row.source_trajectory: row for row in _guidance(context, range(context.round + 1))}
    guided = [(queries[query_id], by_source[source]) for query_id, source in sources.items() if source in by_source]
    attempts = plan_guided(guided, episodes, seed, context.round, ATTEMPTS_PER_QUERY)
    return attempt_all(context, at, attempts, exploring_agent(context, acting_round(context)))


BRANCHES = "rollout_branches"


@stage(BRANCHES, "guide", is_wanted=lambda config: config.rollout.branches > 0)
def rollout_branches(context: RoundContext, at: StageRun) -> StageOutcome:
    """Attempt queries without a success again, from the last good screen of the attempt that came farthest."""
    config, rounds = context.config, [context.round]
    columns = ["trajectory_id", "query_id", "purpose", "status"]
    correct = context.correctness(rounds)
    attempts = [row for row in tuples(context.read("trajectories", columns, rounds)) if row[0] in correct]
    solved = {query_id for name, query_id, _, _ in attempts if correct[name]}
    failed = [name for name, _, purpose, status in attempts if purpose == Purpose.TRAIN and status == "finished"]
    most = -(-config.branch_episodes // config.rollout.branches)
    points = choose_points(_judged_episodes(context, failed), solved, WarehouseScreens(context.warehouse), most)
    chosen = (config.branch_episodes, config.run.seed, context.round, config.rollout.branches)
    return attempt_all(context, at, plan_branches(points, *chosen), exploring_agent(context, acting_round(context)))


def reference_paths_used(context: RoundContext) -> int:
    """Count the queries, so far in the run, whose hints or demonstrations came from their reference path."""
    used = {row.query_id for row in _guidance(context, range(context.round + 1)) if row.source == REFERENCE_PATH}
    if context.config.guidance.demonstrate is True:
        where = {"purpose": [Purpose.GUIDED.value]}
        used.update(context.read("trajectories", ["query_id"], range(context.round + 1), where)["query_id"].to_pylist())
    return len(used)


class _Walks(NamedTuple):
    by_query: dict[str, str]
    rounds_of: dict[str, int]


def _hard_queries(context: RoundContext, to_hint: bool = True) -> tuple[HardQueries, History]:
    """The hard queries and the judged attempts so far; none get hints that a demonstration would replace."""
    settings = context.config.guidance
    if not settings.enabled:
        return HardQueries((), {}), History({})
    history = read_history(context.warehouse, context.run_id, context.round + 1)
    if to_hint and settings.demonstrate:
        return HardQueries((), {}), history
    limits = settings.after_failures, context.config.train.keep_per_query
    each = [
        hard_queries(share.queries, history, *limits, share.episodes)
        for share in shares(context, context.config.guided_episodes)
    ]
    return HardQueries(each[0].queries + each[1].queries, each[0].own_success), history


def _reference_walks(context: RoundContext, rounds: range) -> _Walks:
    """The walks of reference paths in some rounds that did not fail; of several of a query, the last by id."""
    rows = context.read("trajectories", ["trajectory_id", "query_id", "purpose", "reward", "round"], rounds)
    walks = _Walks({}, {})
    for trajectory_id, query_id, purpose, reward, number in sorted(tuples(rows), key=itemgetter(0)):
        if purpose == Purpose.REFERENCE and reward != 0.0:
            walks.by_query[query_id], walks.rounds_of[trajectory_id] = trajectory_id, number
    return walks


def _guidance(context: RoundContext, rounds: range) -> list[Guidance]:
    rows = context.rows(Guidance, rounds)
    return sorted((row for row in rows if row.source != MANUAL), key=lambda row: row.guidance_id)
