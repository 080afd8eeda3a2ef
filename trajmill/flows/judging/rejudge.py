"""Judges stored trajectories again, without any environment (`trajmill judge --again`); verdicts are added.

A batch is the trajectories of one round that the judge has not judged yet. A trajectory that could not be judged is in
the next batch again, until `TRIED_AT_MOST` tries have failed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from trajmill.flows.batches import Batches
from trajmill.flows.configuration.config import OWN_JUDGE, Config
from trajmill.flows.configuration.judges import NamedJudge, judge_named
from trajmill.flows.serving.models_ready import models_ready
from trajmill.flows.stage import RoundContext, tuples
from trajmill.pipelines.fan_out import WrittenFiles, divide
from trajmill.pipelines.judge import AGAIN, JudgeTrajectories
from trajmill.pipelines.reading.verdicts import read_verdicts
from trajmill.schemas.errors import BadInputError
from trajmill.stages.critics.judge import still_to_judge
from trajmill.warehouse.layout import StageRun, create_warehouse
from trajmill.warehouse.lock import sole_worker
from trajmill.warehouse.views import refresh_views


class RejudgeReport(NamedTuple):
    """The result of judging again, as counts of trajectories."""

    trajectories: int
    before: int
    """Trajectories that the judge had judged before."""
    judged: int
    """Trajectories that it has judged now."""
    unjudged: int
    """Trajectories that it could not judge."""


class StoredTrajectory(NamedTuple):
    round: int
    trajectory_id: str


def rejudge(config: Config, name: str | None, round_number: int | None = None) -> RejudgeReport:
    """Judge all finished trajectories of the run, or of one round, again.

    Args:
        config: the configuration.
        name: a judge of `[judges.NAME]`; None is the run's own.
        round_number: only trajectories of this round; of all if None.

    Raises:
        BadInputError: no such judge, or nothing to judge.
        RunInUseError: another process works on the run.
    """
    judge = judge_named(config, name or OWN_JUDGE)
    warehouse = create_warehouse(config.run.root)
    context = RoundContext(config, warehouse, 0)
    stored = finished_trajectories(context, None if round_number is None else [round_number])
    if not stored:
        where = "" if round_number is None else f" in round {round_number}"
        raise BadInputError(
            f"run {config.run_id} in {warehouse.address} has no finished trajectory{where}; "
            "run `trajmill rollout` first"
        )
    with sole_worker(warehouse, config.run_id), models_ready(config, warehouse.run(config.run_id), judge.endpoints):
        report = judge_stored(context, judge, stored)
    refresh_views(warehouse)
    return report


def finished_trajectories(context: RoundContext, rounds: Collection[int] | None = None) -> list[StoredTrajectory]:
    rows = tuples(context.read("trajectories", ["round", "trajectory_id", "status"], rounds))
    return sorted(StoredTrajectory(number, name) for number, name, status in rows if status == "finished")


def judge_stored(context: RoundContext, judge: NamedJudge, stored: Sequence[StoredTrajectory]) -> RejudgeReport:
    """Judge the trajectories that this judge has not judged yet; a second call adds nothing."""
    names = {trajectory.trajectory_id for trajectory in stored}
    before = _judged(context, judge) & names
    by_round: dict[int, list[str]] = defaultdict(list)
    for trajectory in stored:
        by_round[trajectory.round].append(trajectory.trajectory_id)
    for number, trajectory_ids in sorted(by_round.items()):
        _judge_round(context.in_round(number), judge, trajectory_ids)
    judged = _judged(context, judge) & names
    return RejudgeReport(len(stored), len(before), len(judged) - len(before), len(stored) - len(judged))


def _judge_round(context: RoundContext, judge: NamedJudge, trajectory_ids: Sequence[str]) -> None:
    workers = context.config.rollout.workers

    def remaining(finished: Sequence[Mapping[str, Any]]) -> Mapping[str, int]:
        """By trajectory, how often judging it has failed."""
        failed_tries = Counter(trajectory_id for batch in finished for trajectory_id in batch["unjudged"])
        return still_to_judge(trajectory_ids, failed_tries, _judged(context, judge))

    def work(at: StageRun, batch: Mapping[str, int]) -> WrittenFiles:
        job = JudgeTrajectories(
            context.warehouse,
            at,
            context.origin,
            judge.spec,
            judge.critics,
            rounds=(context.round,),
            tried={trajectory_id: tried for trajectory_id, tried in batch.items() if tried},
            rejudge=judge.identity,
        )
        return context.fan_out(at, divide(list(batch), workers), job)

    stage = f"{AGAIN}-{judge.name}-{judge.identity.judge_id}"
    Batches(context, stage, stage, f"{AGAIN} {judge.name}").do(
        remaining, work, lambda batch: {"unjudged": sorted(set(batch) - _judged(context, judge))}
    )


def _judged(context: RoundContext, judge: NamedJudge) -> set[str]:
    judge_id = judge.identity.judge_id
    rows = read_verdicts(context.warehouse, "judgements", ["trajectory_id"], run_id=context.run_id, judge_id=judge_id)
    return set(rows["trajectory_id"].to_pylist())
