"""Verdicts of critics, the judgement on a trajectory, and the quality of each ingredient of a judge."""

from __future__ import annotations

from enum import StrEnum

from pydantic import ValidationInfo, field_validator

from trajmill.schemas.record import Int64, Row


class StepLabel(StrEnum):
    """Effectiveness of one step towards the user's objective (paper 6.3)."""

    GOOD = "GOOD"
    NEUTRAL = "NEUTRAL"
    HARMFUL = "HARMFUL"
    UNKNOWN = "UNKNOWN"
    """The critic does not know what the task needs. No reader takes it for any of the others."""


class Channel(StrEnum):
    """The evidence that critics of trajectories read."""

    TEXT = "text"
    MULTIMODAL = "multimodal"
    PROGRAMMATIC = "programmatic"
    PROBE = "probe"


class JudgeRow(Row):
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
    """Whether the step helped; `UNKNOWN` if the critic does not know what the task needs."""

    @field_validator("label")
    @classmethod
    def _known(cls, label: StepLabel, fields: ValidationInfo) -> StepLabel:
        """Read the labels of unknown tasks, which were GOOD before `graph-step-9`."""
        made_by, analysis = fields.data.get("made_by", ""), fields.data.get("analysis", "")
        was_unknown = made_by.startswith("graph-step-") and analysis.endswith("Nothing speaks against it.")
        return StepLabel.UNKNOWN if was_unknown else label


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


class Ingredient(StrEnum):
    """A part of a judge that could judge alone (CODA 4.2, Table 2)."""

    SINGLE = "single"
    """One vote of one model."""
    VOTING = "voting"
    """All votes of one model at one resolution."""
    MULTI_RESOLUTION = "multi_resolution"
    """All votes of one model, the low resolution first."""
    ENSEMBLE = "ensemble"
    """The votes of several models at one resolution."""
    CHANNEL = "channel"
    """A channel as it is configured."""
    CONSENSUS = "consensus"
    """All channels: the judge."""


class Calibration(Row):
    """One ingredient of one judge, compared with labels, and the mean cost of a verdict."""

    number: int
    """Number of the calibration in the warehouse, from 1; all its rows have the same number."""
    judge: str
    """NAME of the judge's `[judges.NAME]`; `judge` for the run's own judge."""
    judge_id: str
    """Content id of the judge's settings."""
    labels: str | None
    """The labelled set; null if the labels were programmatic rewards of stored trajectories."""
    ingredient: Ingredient
    """What was measured: a part of the judge, or all of it."""
    channel: str | None
    """The channel; null for the consensus."""
    resolution: str | None
    """Scale of the screenshots, `full` for the stored size; null if there are several or none."""
    models: str
    """Versions of the voting prompts and models, joined by `+`."""
    rule: str
    """How the judge combines its votes."""
    votes: Int64
    """Number of votes of the ingredient."""
    trajectories: Int64
    """Trajectories with a label that were to be judged."""
    unjudged: Int64
    """Those that the judge could not judge; the other counts leave them out."""
    undecided: Int64
    """Judged trajectories on which missing votes could change the result of this ingredient."""
    true_positive: Int64
    """Called Correct, and labelled so."""
    false_positive: Int64
    """Called Correct, but not labelled so."""
    true_negative: Int64
    """Called Incorrect, and labelled so."""
    false_negative: Int64
    """Called Incorrect, but labelled Correct."""
    precision: float | None
    """Precision; null if it called nothing correct."""
    precision_low: float
    """Lower end of the 95 % interval of the precision."""
    precision_high: float
    """95 % interval of the precision (Wilson)."""
    recall: float | None
    """Recall; null if nothing was correct."""
    recall_low: float
    """Lower end of the 95 % interval of the recall."""
    recall_high: float
    """Upper end of the 95 % interval of the recall."""
    f1: float | None
    """Harmonic mean of precision and recall; null where it is not defined."""
    kappa: float | None
    """Cohen's kappa; null if chance alone would always agree."""
    calls: float
    """Model calls per verdict, with those of the step critic and repeated questions."""
    tokens: float
    """Tokens per verdict, into and out of models."""
    seconds: float
    """Seconds per verdict of all model calls, added up."""
    cached: float
    """Share of the calls that the request cache answered; they took no time."""
