"""One request to a model, as it was sent and answered."""

from __future__ import annotations

from trajmill.schemas.record import Int64, Row


class ModelCall(Row):
    """One request to a model."""

    call_id: str
    """Identifies the call; a request that is sent twice makes two."""
    trajectory_id: str | None
    """The trajectory of the call; null without one."""
    step_index: int | None
    """The step of the call; null without one."""
    role: str
    """The model's role: policy, critic.text, critic.multimodal, writer, ..."""
    payload_hash: str
    """Hash of everything that decides the answer; equal requests have equal hashes."""
    messages: str
    """JSON of the messages, with screen ids in place of images."""
    response: str | None
    """The answer; null if there was none."""
    input_tokens: Int64
    """Tokens of the request."""
    output_tokens: Int64
    """Tokens of the answer."""
    latency_ms: float
    """Milliseconds until the answer or the error."""
    price: float
    """In the currency of the configuration; 0 for a local model and for an answer from the cache."""
    error: str | None
    """The error in one line; null if there was an answer."""
    other_responses: tuple[str, ...] | None = None
    """The other samples, if more than one was asked for; null on rows of earlier versions."""
    cached: bool | None = None
    """Whether the answer came from the request cache; its tokens are those of the original call. Null on rows of
    earlier versions."""
    judge: str | None = None
    """For a critic of a repeated judgement, the judge's name; else null."""
    judge_id: str | None = None
    """Content id of that judge's settings; null if `judge` is."""
    draw: int | None = None
    """For votes on a trajectory, the draw of the first one; null for other calls and on rows of earlier versions."""
    image_scale: float | None = None
    """Factor for width and height of the sent images; null on rows of earlier versions."""
    draws: tuple[int, ...] | None = None
    """For votes on a trajectory, the draw of each answer, in order; null for other calls and on rows of earlier
    versions."""
    malformed: str | None = None
    """Why the reply is not what an agent's role was asked for; null if it is, for calls of no agent, and on rows of
    earlier versions."""
