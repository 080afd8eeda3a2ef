"""The figures of one round."""

from __future__ import annotations

from trajmill.schemas.record import Int64, Record, Row
from trajmill.schemas.tables.policy_version import SplitSuccess


class StageCount(Record):
    """Rows into and out of one stage, and its seconds."""

    stage: str
    rows_in: Int64
    rows_out: Int64
    seconds: float
    cost: float


class JudgeQuality(Record):
    """Agreement of a judge with the programmatic check."""

    level: str
    """`trajectory` (the consensus), `text`, `multimodal` or `step`."""
    true_positive: Int64
    false_positive: Int64
    true_negative: Int64
    false_negative: Int64


class RoundSummary(Row):
    """The figures of one round."""

    policy_before: str
    """Version that the round trained; unless `run.asynchronous`, it made the round's attempts, too."""
    policy_after: str
    """Version in force after the round."""
    stages: tuple[StageCount, ...]
    """Rows, seconds and money of each stage."""
    success_before: tuple[SplitSuccess, ...]
    """Measured success of `policy_before` on each split."""
    success_after: tuple[SplitSuccess, ...]
    """Measured success of `policy_after` on each split."""
    judge: tuple[JudgeQuality, ...]
    """Agreement of the judge and its parts with the programmatic check."""
    trained: bool
    """Whether the round trained; not if the judge was below its floor, or there were no examples."""
    reference_paths_used: int
    """Number of distinct queries, so far in the run, whose guidance came from their annotated reference path."""
    release: str
    """Name of the round's release; empty without one."""
    reason: str | None = None
    """Why the new policy was promoted or not, or why there is none."""
