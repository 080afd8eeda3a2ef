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
from trajmill.stages.critics.base import Vote
from trajmill.stages.critics.calibration.ingredients import CallCost, LabelledVotes
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
    failures: list[Failure] = field(default_factory=list)
    """One for each trajectory that could not be read or judged."""
    calls: list[ModelCall] = field(default_factory=list)
    unread: int = 0
    """Labelled trajectories that could not be read."""
    absent: int = 0
    """Labelled trajectories without a file; the whole set is large, and a part of it is enough."""
    void: int = 0
    """Trajectories that the set marks as not valid."""
    unsure: int = 0
    """Trajectories whose annotator was unsure."""


async def judge_labelled(
    folder: Path, labels: Sequence[Label], spec: JudgeSpec, critics: CriticModels, origin: Origin, stage: str
) -> LabelledVerdicts:
    """Judge the labelled trajectories that have files, `spec.concurrency` at a time; files are read when needed."""
    made, screens = LabelledVerdicts(), FolderScreens()
    being_judged: dict[str, LabelledEpisode] = {}
    calls: dict[str | None, list[ModelCall]] = defaultdict(list)

    def account(call: ModelCall) -> None:
        made.calls.append(call)
        calls[call.trajectory_id].append(call)

    def episodes() -> Iterator[Episode]:
        for read in _read(folder, labels, screens, made, origin, stage):
            being_judged[read.episode.trajectory.trajectory_id] = read
            yield read.episode

    async with spec.open(critics, origin, account) as judge:
        async for episode, failure in judge_each(episodes(), judge, screens, origin, spec.concurrency):
            name = episode.trajectory.trajectory_id
            known = being_judged.pop(name)
            screens.drop(known.screens)
            costs = [CallCost.of(vars(call)) for call in calls.pop(name, ())]
            if failure is not None:
                made.failures.append(failure.model_copy(update={"stage": stage}))
            elif episode.judgement is not None and known.label.passed is not None:
                votes = [
                    Vote(each.channel, each.resolution, each.made_by, each.correct, number=each.vote)
                    for each in episode.trajectory_verdicts
                ]
                made.evidence.append(LabelledVotes(known.label.passed, votes, costs))
                made.versions.add(episode.judgement.made_by)
    return made


def _read(
    folder: Path, labels: Sequence[Label], screens: FolderScreens, made: LabelledVerdicts, origin: Origin, stage: str
) -> Iterator[LabelledEpisode]:
    """Yield the trajectories that can be judged; the others are counted in `made`."""
    for label in labels:
        if label.passed is None:
            made.unsure += 1
            continue
        try:
            path = find_trajectory(folder, label)
            read = read_trajectory(path, folder, label, screens, origin) if path is not None else None
        except UnreadableError as error:
            made.unread += 1
            failure = Failure(
                stage=stage,
                input_id=storable(label.name),
                failure_class=FailureClass.TASK,
                message=str(error),
                attempts=1,
                **origin.common(made_by=READER),
            )
            made.failures.append(failure)
            continue
        if read is None:
            made.absent += 1
        elif read.episode.trajectory.status != "finished":
            made.void += 1
            screens.drop(read.screens)
        else:
            yield read
