"""One request to a model, as it was sent and answered."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from schemas.record import Row, optional, required, table_schema


class ModelCall(Row):
    """One request to a model."""

    call_id: str
    trajectory_id: str | None
    """The trajectory it was made for, null outside a rollout."""
    step_index: int | None
    role: str
    """policy, critic.text, critic.multimodal, writer, ..."""
    payload_hash: str
    messages: str
    """JSON of the messages; images stand in it as screen ids."""
    response: str | None
    input_tokens: int
    output_tokens: int
    latency_ms: float
    price: float
    """In the currency of the configuration; 0 for a local model."""
    error: str | None

    arrow_schema: ClassVar[pa.Schema] = table_schema(
        required("call_id", pa.string()),
        optional("trajectory_id", pa.string()),
        optional("step_index", pa.int32()),
        required("role", pa.string()),
        required("payload_hash", pa.string()),
        required("messages", pa.string()),
        optional("response", pa.string()),
        required("input_tokens", pa.int64()),
        required("output_tokens", pa.int64()),
        required("latency_ms", pa.float64()),
        required("price", pa.float64()),
        optional("error", pa.string()),
    )
