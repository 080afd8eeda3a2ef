"""Verdicts of critics on steps and trajectories, and the judgement on a trajectory."""

from __future__ import annotations

from enum import StrEnum

from trajmill.schemas.record import Row


class StepLabel(StrEnum):
    """Effectiveness of one step towards the user's objective (paper 6.3)."""

    GOOD = "GOOD"
    NEUTRAL = "NEUTRAL"
    HARMFUL = "HARMFUL"


class Channel(StrEnum):
    """The evidence that critics of trajectories read."""

    TEXT = "text"
    MULTIMODAL = "multimodal"
    PROGRAMMATIC = "programmatic"


class JudgeRow(Row):
    """A row that a judge made."""

    judge: str | None = None
    """The judge of a repeated judgement (`judge --again`, `calibrate`): the NAME of a `[judges.NAME]`. Null for the
    run's own judge; only its rows decide what is trained on."""
    judge_id: str | None = None
    """Content id of that judge's settings; null if `judge` is."""


class StepVerdict(JudgeRow):
    """The verdict of a critic on one step."""

    trajectory_id: str
    """The trajectory of the step."""
    index: int
    """The step's place in the trajectory, from 0."""
    analysis: str
    """What the critic thought."""
    summary: str
    """At most 30 words."""
    label: StepLabel
    """Whether the step helped."""


class TrajectoryVerdict(JudgeRow):
    """One vote of one channel on one trajectory."""

    trajectory_id: str
    """The trajectory."""
    channel: Channel
    """What the critic looked at."""
    resolution: str
    """`full`, or the scale of the screenshots in a cheaper pass."""
    vote: int
    """0 for the first vote of the channel."""
    correct: bool
    """Whether the critic calls the trajectory Correct."""
    reason: str
    """Why, in the critic's words."""
    redundant_steps: tuple[int, ...]
    """Indices of the steps that were not needed."""
    first_error_step: int | None
    """Index of the first wrong step; null if none is."""


class Judgement(JudgeRow):
    """The decision on one trajectory; judging again adds rows and changes none."""

    trajectory_id: str
    """The trajectory."""
    correct: bool
    """Whether the judge calls it Correct."""
    rule: str
    """The rule that combined the votes, e.g. `consensus(text,multimodal)`."""
    agreed: bool
    """Whether all votes were the same."""
    redundant_steps: tuple[int, ...]
    """Indices of the steps that were not needed."""
    first_error_step: int | None
    """Index of the first wrong step; null if none is."""
