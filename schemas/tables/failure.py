"""A failure: work that gave no row. It is stored and never dropped silently."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from trajmill.schemas.errors import FailureClass
from trajmill.schemas.record import Row, required, table_schema


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
