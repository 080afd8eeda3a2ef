"""How good a judge is, ingredient by ingredient: one row of `calibrations`."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

import pyarrow as pa

from trajmill.schemas.record import Row, optional, required, table_schema


class Ingredient(StrEnum):
    """A part of a judge that could stand alone (CODA 4.2, Table 2)."""

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
    """One ingredient of one judge against labels, with the means that a verdict takes."""

    number: int
    """Counts the calibrations of a warehouse from 1; all rows of one have the same, and the newest the largest."""
    judge: str
    """NAME of its `[judges.NAME]`; `judge` for the run's own."""
    judge_id: str
    """Content id of its settings."""
    labels: str | None
    """The labelled set; null where programmatic rewards of stored trajectories were the labels."""
    ingredient: Ingredient
    channel: str | None
    """Null for the consensus."""
    resolution: str | None
    """Scale of the screenshots, `full` as they are stored; null where several or none."""
    models: str
    """Versions of prompts and models that vote, joined by `+`."""
    rule: str
    """How the judge combines its votes."""
    votes: int
    """Votes that it takes."""
    trajectories: int
    """Trajectories with a label that were to be judged."""
    unjudged: int
    """Those that the judge could not judge; they are no verdicts and count nowhere else."""
    undecided: int
    """Those that it judged, on which votes are missing that could turn this ingredient."""
    true_positive: int
    false_positive: int
    true_negative: int
    false_negative: int
    precision: float | None
    """Null where it called nothing correct."""
    precision_low: float
    precision_high: float
    """95 % interval (Wilson)."""
    recall: float | None
    """Null where nothing was correct."""
    recall_low: float
    recall_high: float
    f1: float | None
    kappa: float | None
    """Cohen's kappa; null where chance alone would agree always."""
    calls: float
    """Calls to models per verdict, those of the step critic and of repeated questions included."""
    tokens: float
    """Tokens per verdict, into and out of models."""
    seconds: float
    """Seconds per verdict that models took to answer, one call after the other."""
    cached: float
    """Share of the calls that the request cache answered; they took no time."""

    arrow_schema: ClassVar[pa.Schema] = table_schema(
        required("number", pa.int32()),
        required("judge", pa.string()),
        required("judge_id", pa.string()),
        optional("labels", pa.string()),
        required("ingredient", pa.string()),
        optional("channel", pa.string()),
        optional("resolution", pa.string()),
        required("models", pa.string()),
        required("rule", pa.string()),
        *(required(name, pa.int64()) for name in ("votes", "trajectories", "unjudged", "undecided")),
        *(
            required(name, pa.int64())
            for name in ("true_positive", "false_positive", "true_negative", "false_negative")
        ),
        optional("precision", pa.float64()),
        required("precision_low", pa.float64()),
        required("precision_high", pa.float64()),
        optional("recall", pa.float64()),
        required("recall_low", pa.float64()),
        required("recall_high", pa.float64()),
        optional("f1", pa.float64()),
        optional("kappa", pa.float64()),
        *(required(name, pa.float64()) for name in ("calls", "tokens", "seconds", "cached")),
    )
