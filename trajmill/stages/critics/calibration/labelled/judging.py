"""Judges a labelled set, whose trajectories are in files and not in a warehouse."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import FailureClass
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.text import storable
from trajmill.stages.critics.base import vote_in
from trajmill.stages.critics.calibration.ingredients import CallCost, LabelledVotes, draws_of
from trajmill.stages.critics.calibration.labelled.trajectories import (
    FolderScreens,
    Label,
    LabelledEpisode,
    UnreadableError,
    find_trajectory,
    read_trajectory,
)
from trajmill.stages.critics.judge import judge_each
from trajmill.stages.critics.spec import CriticModels, JudgeSpec

READER = "labelled-set-1"


@dataclass
class LabelledVerdicts:
    """The votes on a labelled set, and the counts of trajectories without votes."""

    evidence: list[LabelledVotes] = field(default_factory=list)
    versions: set[str] = field(default_factory=set)
    """Versions of the judge on its judgements."""
    failures: list[Failure] = field(default_factory=list)
    """One for each trajectory that could not be read or judged."""
    calls: list[ModelCall] = field(default_factory=list)
    unread: int = 0
    """Labelled trajectories that could not be read."""
    absent: int = 0
    """Labelled trajectories without a file; the whole set is large, so a part of it is enough."""
    void: int = 0
    """Trajectories that the set marks as not valid."""
    unsure: int = 0
    """Trajectories whose annotator was unsure."""


async def judge_labelled(
    folder: Path, labels: Sequence[Label], spec: JudgeSpec, critics: CriticModels, origin: Origin, stage: str
) -> LabelledVerdicts:
    """Judge the labelled trajectories that have files, `spec.concurrency` at a time; files are read when needed.

    Args:
        folder: the set, see `trajmill.stages.critics.calibration.labelled.trajectories`.
        labels: its labels.
        spec: the judge.
        critics: the models that it asks.
        origin: the common columns of failures and model calls.
        stage: stage name on the failures.
    """
    return await _Judging(folder, origin, stage).run(labels, spec, critics)


class _Judging:
    """One pass over a set."""

    def __init__(self, folder: Path, origin: Origin, stage: str) -> None:
        self._folder, self._origin, self._stage = folder, origin, stage
        self._screens = FolderScreens()
        self._being_judged: dict[str, LabelledEpisode] = {}
        self._made = LabelledVerdicts()

    async def run(self, labels: Sequence[Label], spec: JudgeSpec, critics: CriticModels) -> LabelledVerdicts:
        """Judge all trajectories that have files."""
        calls: dict[str | None, list[ModelCall]] = defaultdict(list)

        def account(call: ModelCall) -> None:
            self._made.calls.append(call)
            calls[call.trajectory_id].append(call)

        async with spec.open(critics, self._origin, account) as judge:
            episodes = (each.episode for each in self._read(labels))
            async for one in judge_each(episodes, judge, self._screens, self._origin, spec.concurrency):
                name = one.episode.trajectory.trajectory_id
                known = self._being_judged.pop(name)
                self._screens.drop(known.screens)
                costs = [_cost_of(call) for call in calls.pop(name, ())]
                if one.failure is not None:
                    self._made.failures.append(one.failure.model_copy(update={"stage": self._stage}))
                elif one.episode.judgement is not None:
                    self._add_votes(known.label, one.episode, costs)
        return self._made

    def _add_votes(self, label: Label, episode: Episode, costs: Sequence[CallCost]) -> None:
        assert label.passed is not None and episode.judgement is not None
        votes = [vote_in(verdict) for verdict in episode.trajectory_verdicts]
        self._made.evidence.append(LabelledVotes(label.passed, votes, costs))
        self._made.versions.add(episode.judgement.made_by)

    def _read(self, labels: Sequence[Label]) -> Iterator[LabelledEpisode]:
        for label in labels:
            if label.passed is None:
                self._made.unsure += 1
                continue
            try:
                path = find_trajectory(self._folder, label)
                if path is None:
                    self._made.absent += 1
                    continue
                read = read_trajectory(path, self._folder, label, self._screens, self._origin)
            except UnreadableError as error:
                self._made.unread += 1
                self._made.failures.append(self._unreadable(label, error))
                continue
            if read.episode.trajectory.status != "finished":
                self._made.void += 1
                self._screens.drop(read.screens)
                continue
            self._being_judged[read.episode.trajectory.trajectory_id] = read
            yield read

    def _unreadable(self, label: Label, error: UnreadableError) -> Failure:
        return Failure(
            stage=self._stage,
            input_id=storable(label.name),
            failure_class=FailureClass.TASK,
            message=str(error),
            attempts=1,
            **self._origin.common(made_by=READER),
        )


def _cost_of(call: ModelCall) -> CallCost:
    """The cost of a call."""
    return CallCost(
        call.role,
        call.payload_hash,
        draws_of(call.draw, call.draws),
        call.image_scale,
        call.input_tokens,
        call.output_tokens,
        call.latency_ms,
        bool(call.cached),
    )
