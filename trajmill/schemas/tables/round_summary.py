"""The figures of one round."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from trajmill.schemas.record import Record, Row, optional, required, table_schema
from trajmill.schemas.tables.policy_version import SplitSuccess


class StageCount(Record):
    """Rows into and out of one stage, and its seconds."""

    stage: str
    rows_in: int
    rows_out: int
    seconds: float
    cost: float


class JudgeQuality(Record):
    """Agreement of a judge with the programmatic check."""

    level: str
    """`trajectory` (the consensus), `text`, `multimodal` or `step`."""
    true_positive: int
    false_positive: int
    true_negative: int
    false_negative: int


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

    arrow_schema: ClassVar[pa.Schema] = table_schema(
        required("policy_before", pa.string()),
        required("policy_after", pa.string()),
        required(
            "stages",
            pa.list_(
                pa.struct(
                    [
                        ("stage", pa.string()),
                        ("rows_in", pa.int64()),
                        ("rows_out", pa.int64()),
                        ("seconds", pa.float64()),
                        ("cost", pa.float64()),
                    ]
                )
            ),
        ),
        *(
            required(
                name,
                pa.list_(pa.struct([("split", pa.string()), ("queries", pa.int32()), ("successes", pa.int32())])),
            )
            for name in ("success_before", "success_after")
        ),
        required(
            "judge",
            pa.list_(
                pa.struct(
                    [
                        ("level", pa.string()),
                        *(
                            (name, pa.int64())
                            for name in ("true_positive", "false_positive", "true_negative", "false_negative")
                        ),
                    ]
                )
            ),
        ),
        required("trained", pa.bool_()),
        required("reference_paths_used", pa.int32()),
        required("release", pa.string()),
        optional("reason", pa.string()),
    )
