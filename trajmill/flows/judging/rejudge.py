"""Judges stored trajectories again, without any environment (`trajmill judge --again`); verdicts are added.

A batch is the trajectories of one round that the judge has not judged yet. Its list is written before the work starts,
so that a killed batch can be continued; it is done after its commit. A trajectory that could not be judged is in the
next batch again, until `TRIED_AT_MOST` tries have failed.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from trajmill.flows.configuration.config import OWN_JUDGE, Config
from trajmill.flows.configuration.judges import NamedJudge, judge_named
from trajmill.flows.context import RoundContext
from trajmill.flows.serving.models_ready import models_ready
from trajmill.flows.tasks.watched import watched_work
from trajmill.pipelines.fan_out import divide, fan_out
from trajmill.pipelines.judge import AGAIN, JudgeTrajectories
from trajmill.pipelines.reading.verdicts import read_verdicts
from trajmill.schemas.errors import BadInputError
from trajmill.stages.critics.judge import still_to_judge
from trajmill.warehouse.atomic import disk_full_as_error
from trajmill.warehouse.commit import commit_stage
from trajmill.warehouse.layout import StageRun, create_warehouse
from trajmill.warehouse.lock import sole_worker
from trajmill.warehouse.read import read_table
from trajmill.warehouse.staging import mark_done, read_marker, stage_key, sweep
from trajmill.warehouse.views import refresh_views


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
        judged = judge_stored(context, judge, stored)
    refresh_views(warehouse)
    return judged


_BATCH = "batch.json"


class RejudgeReport(NamedTuple):
    """The result of judging again, as counts of trajectories."""

    trajectories: int
    """Finished trajectories that were to be judged."""
    before: int
    """Trajectories that the judge had judged before."""
    judged: int
    """Trajectories that it has judged now."""
    unjudged: int
    """Trajectories that it could not judge."""


class StoredTrajectory(NamedTuple):
    """A finished trajectory."""

    round: int
    trajectory_id: str


def finished_trajectories(
    context: RoundContext, rounds: Collection[int] | None = None, purposes: Collection[str] | None = None
) -> list[StoredTrajectory]:
    """The finished trajectories of the run, sorted; None takes all rounds, or all purposes."""
    columns = ["round", "trajectory_id", "status", "purpose"]
    rows = read_table(context.warehouse, "trajectories", columns, rounds=rounds, run_id=context.run_id)
    found = zip(*(column.to_pylist() for column in rows.columns), strict=True)
    return sorted(
        StoredTrajectory(number, trajectory_id)
        for number, trajectory_id, status, purpose in found
        if status == "finished" and (purposes is None or purpose in purposes)
    )


def judge_stored(context: RoundContext, judge: NamedJudge, stored: Sequence[StoredTrajectory]) -> RejudgeReport:
    """Judge the trajectories that this judge has not judged yet; a second call adds nothing."""
    before = _judged(context, judge) & {trajectory.trajectory_id for trajectory in stored}
    by_round: dict[int, list[str]] = defaultdict(list)
    for trajectory in stored:
        by_round[trajectory.round].append(trajectory.trajectory_id)
    for number, trajectory_ids in sorted(by_round.items()):
        _Batches(context.in_round(number), judge).judge(trajectory_ids)
    judged = _judged(context, judge) & {trajectory.trajectory_id for trajectory in stored}
    return RejudgeReport(len(stored), len(before), len(judged) - len(before), len(stored) - len(judged))


class _Batches:
    """The batches of one judge in one round."""

    def __init__(self, context: RoundContext, judge: NamedJudge) -> None:
        self._context = context
        self._judge = judge
        self._stage = f"{AGAIN}-{judge.name}-{judge.identity.judge_id}"

    def judge(self, trajectory_ids: Sequence[str]) -> None:
        """Finish a batch that was started before, if there is one, then judge the remaining trajectories."""
        failed_by_batch = self._failed_by_batch()
        started = self._context.warehouse.store.get(self._batch_name(len(failed_by_batch)))
        if started is not None:
            self._judge_batch(self._batch_run(len(failed_by_batch)), json.loads(started))
            failed_by_batch = self._failed_by_batch()
        failed_tries = Counter(trajectory_id for ids in failed_by_batch for trajectory_id in ids)
        remaining = still_to_judge(trajectory_ids, failed_tries, _judged(self._context, self._judge))
        if remaining:
            at = self._batch_run(len(failed_by_batch))
            self._context.warehouse.store.put(self._batch_name(at.attempt), json.dumps(remaining).encode())
            self._judge_batch(at, remaining)

    def _batch_name(self, attempt: int) -> str:
        """Where the trajectories of a batch are stored, which has begun."""
        return self._context.warehouse.name(self._folder(attempt) / _BATCH)

    def _batch_run(self, attempt: int) -> StageRun:
        return StageRun(self._context.run_id, self._context.round, self._stage, attempt)

    def _failed_by_batch(self) -> list[list[str]]:
        """For each finished batch, the trajectories that could not be judged."""
        failed_by_batch: list[list[str]] = []
        while (marked := self._marked(len(failed_by_batch))) is not None:
            failed_by_batch.append(marked["unjudged"])
        return failed_by_batch

    def _judge_batch(self, at: StageRun, batch: Mapping[str, int]) -> None:
        context, judge = self._context, self._judge
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
        workers = context.config.rollout.workers
        key = self._key(at.attempt)
        watching = watched_work(context.warehouse, at, f"{AGAIN} {judge.name}")
        with disk_full_as_error(context.warehouse.root), watching:
            made = fan_out(context.warehouse, at, divide(list(batch), workers), job, context.beam, workers)
            commit_stage(context.warehouse, at, made.files)
        unjudged = sorted(set(batch) - _judged(context, judge))
        mark_done(self._context.warehouse, self._folder(at.attempt), key, {"unjudged": unjudged})
        sweep(self._context.warehouse, self._folder(at.attempt))

    def _marked(self, attempt: int) -> dict[str, Any] | None:
        return read_marker(self._context.warehouse, self._folder(attempt), self._key(attempt))

    def _folder(self, attempt: int) -> Path:
        return self._batch_run(attempt).staging(self._context.warehouse)

    def _key(self, attempt: int) -> str:
        return stage_key(self._stage, self._context.run_id, [self._context.round, attempt])


def _judged(context: RoundContext, judge: NamedJudge) -> set[str]:
    rows = read_verdicts(
        context.warehouse,
        "judgements",
        ["trajectory_id"],
        run_id=context.run_id,
        judge_id=judge.identity.judge_id,
    )
    return set(rows["trajectory_id"].to_pylist())
