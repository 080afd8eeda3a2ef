"""Judge stored trajectories anew, without any environment: verdicts are added beside the rounds' own, none is changed.

What is judged at once is a batch: the trajectories of one round that the judge has not judged yet. A batch is written
down before it is begun, so that one that was killed is gone on with, and is counted as done after its commit. What the
judge could not judge is in the next batch again, within bounds.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import NamedTuple

from trajmill.flows.configuration.judges import NamedJudge
from trajmill.flows.context import RoundContext
from trajmill.flows.progress import progress
from trajmill.pipelines.fan_out import fan_out, split_evenly
from trajmill.pipelines.judge import AGAIN, JudgeTrajectories
from trajmill.pipelines.reading.verdicts import read_verdicts
from trajmill.stages.critics.unjudged import still_to_judge
from trajmill.warehouse.atomic import disk_full_as_error, write_text
from trajmill.warehouse.commit import commit_stage
from trajmill.warehouse.layout import StageRun
from trajmill.warehouse.read import read_table
from trajmill.warehouse.staging import mark_done, read_marker, stage_key, sweep

_BATCH = "batch.json"
_MOST_IN_SHARD = 1000


class RejudgeReport(NamedTuple):
    """What came of judging anew."""

    trajectories: int
    """Finished trajectories that were to be judged."""
    before: int
    """Those that the judge had judged already."""
    judged: int
    """Those that it has judged now."""
    unjudged: int
    """Those that it could not judge so far."""


class StoredTrajectory(NamedTuple):
    """A finished trajectory."""

    round: int
    trajectory_id: str


def finished_trajectories(
    context: RoundContext, rounds: Collection[int] | None = None, purposes: Collection[str] | None = None
) -> list[StoredTrajectory]:
    """Trajectories of the run that are evidence about an agent, in order; of some rounds and purposes, all if None."""
    columns = ["round", "trajectory_id", "status", "purpose"]
    rows = read_table(context.warehouse, "trajectories", columns, rounds=rounds, run_id=context.run_id)
    found = zip(*(column.to_pylist() for column in rows.columns), strict=True)
    return sorted(
        StoredTrajectory(number, trajectory_id)
        for number, trajectory_id, status, purpose in found
        if status == "finished" and (purposes is None or purpose in purposes)
    )


def judge_stored(context: RoundContext, judge: NamedJudge, stored: Sequence[StoredTrajectory]) -> RejudgeReport:
    """Judge the trajectories that this judge has not judged yet; asked twice, it adds nothing."""
    before = _judged(context, judge) & {one.trajectory_id for one in stored}
    by_round: dict[int, list[str]] = defaultdict(list)
    for one in stored:
        by_round[one.round].append(one.trajectory_id)
    for number, trajectory_ids in sorted(by_round.items()):
        _Batches(context.in_round(number), judge).judge(trajectory_ids)
    judged = _judged(context, judge) & {one.trajectory_id for one in stored}
    return RejudgeReport(len(stored), len(before), len(judged) - len(before), len(stored) - len(judged))


class _Batches:
    """The batches of one judge in one round."""

    def __init__(self, context: RoundContext, judge: NamedJudge) -> None:
        self._context = context
        self._judge = judge
        self._stage = f"{AGAIN}-{judge.name}-{judge.identity.judge_id}"

    def judge(self, trajectory_ids: Sequence[str]) -> None:
        """Finish the batch that was begun, if one was, then judge what is left."""
        done = self._done()
        begun = self._at(len(done)).staging(self._context.warehouse) / _BATCH
        if begun.exists():
            self._do(self._at(len(done)), json.loads(begun.read_text(encoding="utf-8")))
            done = self._done()
        failed_tries = Counter(trajectory_id for ids in done for trajectory_id in ids)
        left = still_to_judge(trajectory_ids, failed_tries, _judged(self._context, self._judge))
        if left:
            at = self._at(len(done))
            write_text(at.staging(self._context.warehouse) / _BATCH, json.dumps(left))
            self._do(at, left)

    def _at(self, attempt: int) -> StageRun:
        return StageRun(self._context.run_id, self._context.round, self._stage, attempt)

    def _done(self) -> list[list[str]]:
        """For each finished batch the trajectories that could not be judged."""
        done: list[list[str]] = []
        while (marked := read_marker(self._folder(len(done)), self._key(len(done)))) is not None:
            done.append(marked["unjudged"])
        return done

    def _do(self, at: StageRun, batch: Mapping[str, int]) -> None:
        context, judge = self._context, self._judge
        job = JudgeTrajectories(
            context.warehouse,
            at,
            context.origin,
            judge.spec,
            judge.critics,
            rounds=(context.round,),
            tried=batch,
            rejudge=judge.identity,
        )
        shards = split_evenly(list(batch), max(context.config.rollout.workers, ceil(len(batch) / _MOST_IN_SHARD)))
        key = self._key(at.attempt)
        with (
            disk_full_as_error(context.warehouse.root),
            progress().stage(context.round, f"{AGAIN} {judge.name}", len(batch)) as advance,
        ):
            made = fan_out(context.warehouse, at, shards, job, context.beam)
            commit_stage(context.warehouse, at, made.files)
            advance(len(batch))
        unjudged = sorted(set(batch) - _judged(context, judge))
        mark_done(self._folder(at.attempt), key, {"unjudged": unjudged})
        sweep(self._folder(at.attempt))

    def _folder(self, attempt: int) -> Path:
        return self._at(attempt).staging(self._context.warehouse)

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
