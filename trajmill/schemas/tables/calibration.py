"""The quality of one ingredient of a judge: a row of `calibrations`."""

from __future__ import annotations

from enum import StrEnum

from trajmill.schemas.record import Int64, Row


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
