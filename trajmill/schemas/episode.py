"""The record that stages pass on: a trajectory with its steps and, later, its verdicts."""

from __future__ import annotations

from trajmill.schemas.record import Record
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.query import Query
from trajmill.schemas.tables.step import Step
from trajmill.schemas.tables.trajectory import Trajectory
from trajmill.schemas.tables.verdict import Judgement, StepVerdict, TrajectoryVerdict


class Episode(Record):
    """One trajectory with its query and steps and, if they were read, its guidance and verdicts."""

    query: Query
    trajectory: Trajectory
    steps: tuple[Step, ...]
    guidance: str = ""
    """The guidance of the agent; empty without any, or if it was not read."""
    calls: tuple[ModelCall, ...] = ()
    step_verdicts: tuple[StepVerdict, ...] = ()
    trajectory_verdicts: tuple[TrajectoryVerdict, ...] = ()
    judgement: Judgement | None = None
