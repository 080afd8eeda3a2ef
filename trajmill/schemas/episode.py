"""The record that stages pass on: a trajectory with its steps and, later, its verdicts."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import AliasChoices, Field

from trajmill.schemas.record import Record, Row
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.query import Query
from trajmill.schemas.tables.trajectory import Step, Trajectory
from trajmill.schemas.tables.verdict import Judgement, StepLabel, StepVerdict, TrajectoryVerdict


class AttemptRows(Record):
    """The rows of one attempt, as journals store them; its screens have another journal."""

    trajectory: Trajectory
    steps: tuple[Step, ...]
    # Journals of an earlier trajmill have the longer name.
    calls: tuple[ModelCall, ...] = Field(default=(), validation_alias=AliasChoices("calls", "model_calls"))
    failures: tuple[Failure, ...] = ()
    step_verdicts: tuple[StepVerdict, ...] = ()
    trajectory_verdicts: tuple[TrajectoryVerdict, ...] = ()
    judgement: Judgement | None = None

    @property
    def judged_reward(self) -> float | None:
        """1 for a correct attempt, 0 for an incorrect one, None if it was not judged."""
        return None if self.judgement is None else float(self.judgement.correct)

    @property
    def labels(self) -> dict[int, StepLabel]:
        """The labels that the step critic could give, by index of the step."""
        return {each.index: each.label for each in self.step_verdicts if each.label is not StepLabel.UNKNOWN}

    @property
    def harmful(self) -> set[int]:
        """Indices of the steps labelled HARMFUL."""
        return {index for index, label in self.labels.items() if label is StepLabel.HARMFUL}


def verdict_rows(attempts: Sequence[AttemptRows]) -> dict[str, list[Row]]:
    return {
        "step_verdicts": [verdict for one in attempts for verdict in one.step_verdicts],
        "trajectory_verdicts": [verdict for one in attempts for verdict in one.trajectory_verdicts],
        "judgements": [one.judgement for one in attempts if one.judgement],
    }


class Episode(AttemptRows):
    """One trajectory with its query and steps and, if they were read, its guidance and verdicts."""

    query: Query
    guidance: str = ""
    """The guidance of the agent; empty without any, or if it was not read."""
