"""One request to a model, as it was sent and answered."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from trajmill.schemas.record import STRINGS, Row, optional, required, table_schema


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
    """In the currency of the configuration; 0 for a local model and for an answer from the cache."""
    error: str | None
    other_responses: tuple[str, ...] | None = None
    """The other samples where more than one was asked for; null on rows of earlier versions."""
    cached: bool | None = None
    """Whether the answer came from the request cache; its tokens are those of the call that was made. Null on rows of
    earlier versions."""
    judge: str | None = None
    """Of a call by a critic that judged anew, the judge's name; null otherwise."""
    judge_id: str | None = None
    """Content id of that judge's settings; null as `judge` is."""
    draw: int | None = None
    """Of a vote on a trajectory, which draw it was asked for; of several votes the first one's. Null otherwise and on
    rows of earlier versions."""
    image_scale: float | None = None
    """Share of their sides at which images were sent; null on rows of earlier versions."""

    draws: tuple[int, ...] | None = None
    """Of votes on a trajectory, the draw of each answer in their order; null otherwise and on rows of earlier
    versions."""

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
        optional("other_responses", STRINGS),
        optional("cached", pa.bool_()),
        optional("judge", pa.string()),
        optional("judge_id", pa.string()),
        optional("draw", pa.int32()),
        optional("image_scale", pa.float64()),
        optional("draws", pa.list_(pa.int32())),
    )
