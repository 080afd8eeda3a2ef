"""Work that gave no row: failures, and what a derivation refused. Both are stored and never dropped silently."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from trajmill.schemas.errors import FailureClass
from trajmill.schemas.record import Row, optional, required, table_schema


class Failure(Row):
    """Work that gave no row."""

    stage: str
    """The stage that could not make the row."""
    input_id: str
    """Id of the query, trajectory or example that the stage was working on."""
    failure_class: FailureClass
    """The cause."""
    message: str
    """What went wrong, in one line."""
    attempts: int
    """How often it was tried."""

    arrow_schema: ClassVar[pa.Schema] = table_schema(
        required("stage", pa.string()),
        required("input_id", pa.string()),
        required("failure_class", pa.string()),
        required("message", pa.string()),
        required("attempts", pa.int32()),
    )


class Refusal(Row):
    """Work of a derivation that gave no example, and why."""

    kind: str
    """The kind of example that was to be derived."""
    variant: str | None
    """The sort within the kind; null if all sorts of it were refused."""
    trajectory_id: str
    """The trajectory; of a screen that many have, the one that it was read from."""
    step_index: int | None
    """The step; null for a whole trajectory."""
    screen_id: str | None
    """The screen; null where the reason is none of a screen."""
    reason: str
    """One word, so that reasons can be counted: `harmful`, `ambiguous`, `other_action`, ..."""
    detail: str
    """What was found, in one line; empty where the reason says it all."""
    count: int
    """How many possible examples of this step or screen were refused for this reason."""

    arrow_schema: ClassVar[pa.Schema] = table_schema(
        required("kind", pa.string()),
        optional("variant", pa.string()),
        required("trajectory_id", pa.string()),
        optional("step_index", pa.int32()),
        optional("screen_id", pa.string()),
        required("reason", pa.string()),
        required("detail", pa.string()),
        required("count", pa.int32()),
    )
