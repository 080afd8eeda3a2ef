"""A version of the policy: what it came from, what it was trained on, how good it is."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from trajmill.schemas.record import Record, Row, optional, required, table_schema


class SplitSuccess(Record):
    """Success of a policy on one split."""

    split: str
    queries: int
    successes: int


class PolicyVersion(Row):
    """One row of `models`: a policy version and its measurement."""

    model_version: str
    parent: str | None
    release: str | None
    """Name of the release it was trained on, null for the untrained policy."""
    recipe: str
    """JSON of the training configuration."""
    updates: int
    """Optimiser updates since the untrained policy."""
    success: tuple[SplitSuccess, ...]
    promoted: bool
    reason: str
    """Why it was promoted or not."""

    arrow_schema: ClassVar[pa.Schema] = table_schema(
        required("model_version", pa.string()),
        optional("parent", pa.string()),
        optional("release", pa.string()),
        required("recipe", pa.string()),
        required("updates", pa.int64()),
        required(
            "success",
            pa.list_(pa.struct([("split", pa.string()), ("queries", pa.int32()), ("successes", pa.int32())])),
        ),
        required("promoted", pa.bool_()),
        required("reason", pa.string()),
    )
