"""What travels through a pipeline: one trajectory with its steps and, later, its verdicts; screens by id."""

from __future__ import annotations

from trajmill.schemas.record import Record
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.query import Query
from trajmill.schemas.tables.step import Step
from trajmill.schemas.tables.trajectory import Trajectory
from trajmill.schemas.tables.verdict import Judgement, StepVerdict, TrajectoryVerdict


class Episode(Record):
    """One trajectory with its query, its steps and, where they are read, its guidance and its verdicts."""

    query: Query
    trajectory: Trajectory
    steps: tuple[Step, ...]
    guidance: str = ""
    """The hints that the agent was given, where they are read; empty without any."""
    calls: tuple[ModelCall, ...] = ()
    step_verdicts: tuple[StepVerdict, ...] = ()
    trajectory_verdicts: tuple[TrajectoryVerdict, ...] = ()
    judgement: Judgement | None = None
