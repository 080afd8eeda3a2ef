from __future__ import annotations

import json

from trajmill.schemas.observation import Observation
from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.text import storable
from trajmill.stages.models.base import ChatMessage, ChatRequest, Completion, MessagePart


def messages_to_json(messages: tuple[ChatMessage, ...]) -> str:
    """Compact JSON of messages that can be stored; an observation or an image becomes `{"screen": id}`."""
    return json.dumps(
        [
            {
                "role": storable(message.role),
                "content": [_content(part) for part in message.parts],
            }
            for message in messages
        ],
        separators=(",", ":"),
        ensure_ascii=False,
    )


def screen_id_of(part: MessagePart) -> str | None:
    if isinstance(part, str):
        return None
    return part.screen.screen_id if isinstance(part, Observation) else part.screen_id


def _content(part: MessagePart) -> str | dict[str, str | None]:
    return storable(part) if isinstance(part, str) else {"screen": screen_id_of(part)}


def payload_hash(request: ChatRequest, model_version: str) -> str:
    """A hash of everything that decides the answer; requests with equal hashes may share one answer.

    Screens count by their content id. The role, the trajectory and the step do not change the answer.
    """
    messages = [
        [message.role, *([part] if isinstance(part, str) else {"screen": screen_id_of(part)} for part in message.parts)]
        for message in request.messages
    ]
    return content_id(
        model_version,
        messages,
        request.temperature,
        request.top_p,
        request.seed,
        request.max_tokens,
        request.n,
        request.top_logprobs,
        request.answer_schema,
        request.image_scale,
        *(["with_tokens"] if request.with_tokens else []),
    )


def model_call_row(
    call_id: str,
    request: ChatRequest,
    completion: Completion | None,
    latency_ms: float,
    error: str | None,
    model_version: str,
    origin: Origin,
    malformed: str = "",
) -> ModelCall:
    """The `model_calls` row of a request; texts that cannot be stored are repaired.

    Args:
        call_id: identifies the call, not the request; a request that is sent twice makes two rows.
        request: the request, with its trajectory and step.
        completion: None if the call failed.
        latency_ms: time until the answer or the error, in milliseconds.
        error: one line; None if there was an answer.
        model_version: version of the model.
        origin: common columns.
        malformed: why an agent's role could not use the answer; empty if it could.
    """
    return ModelCall(
        call_id=call_id,
        trajectory_id=request.trajectory_id,
        step_index=request.step_index,
        role=request.role,
        payload_hash=payload_hash(request, model_version),
        messages=messages_to_json(request.messages),
        response=storable(completion.text) if completion else None,
        input_tokens=completion.input_tokens if completion else 0,
        output_tokens=completion.output_tokens if completion else 0,
        latency_ms=latency_ms,
        price=completion.price if completion else 0.0,
        error=None if error is None else storable(error),
        other_responses=tuple(map(storable, completion.others)) if completion else (),
        cached=completion.cached if completion else False,
        draw=request.draws[0] if request.draws else None,
        draws=request.draws or None,
        image_scale=request.image_scale,
        malformed=storable(malformed) or None,
        **origin.common(made_by=model_version),
    )
