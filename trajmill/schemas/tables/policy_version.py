"""A version of the policy, and the figures of the round that made it."""

from __future__ import annotations

from trajmill.schemas.record import Int64, Record, Row


class SplitSuccess(Record):
    """Success of a policy on one split."""

    split: str
    queries: int
    successes: int


class QueryOutcome(Record):
    """Whether a policy achieved one query."""

    query_id: str
    success: bool


class PolicyVersion(Row):
    """A policy version, its measurement, and a decision about it.

    A version that is decided about again, by `trajmill policy promote` or `rollback`, gets a further row.
    """

    model_version: str
    """The version, which names its weights."""
    parent: str | None
    """The version that it was trained from; null for the first one."""
    release: str | None
    """Name of the release that it was trained on; null for the untrained policy."""
    recipe: str
    """JSON of the training configuration."""
    updates: Int64
    """Optimiser updates since the untrained policy."""
    success: tuple[SplitSuccess, ...]
    """Its measured success on each split."""
    promoted: bool
    """Whether it was put in force."""
    reason: str
    """Why it was promoted or not."""
    kind: str | None = None
    """The kind of model that it is, e.g. `embedded`, `openai_api`, `transformers_local`."""
    folder: str | None = None
    """Folder of its weights, relative to the warehouse where it lies in it; null where only its server knows."""
    adapter: str | None = None
    """Folder of its LoRA adapter, likewise; null where it has none."""
    metrics: str | None = None
    """JSON of what its training reported, e.g. rows, updates and loss; null where trajmill did not train it."""
    validation: tuple[QueryOutcome, ...] | None = None
    """Its outcome on each validation query that could be scored."""
    training: tuple[QueryOutcome, ...] | None = None
    """Its outcome on each measured training query that could be scored."""


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
