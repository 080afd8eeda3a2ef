"""What a model call leaves behind: one row, whoever made it and however it ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from time import perf_counter

from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.errors import ModelFailure
from trajmill.schemas.geometry import Size
from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.storable import storable
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.stages.models.base import ChatModel, ChatRequest, Completion
from trajmill.stages.models.messages import messages_to_json, screen_id_of


def payload_hash(request: ChatRequest, model_version: str) -> str:
    """Identifies all that decides the answer: equal hashes may share one.

    Screens count by their content id. The role, the trajectory and the step decide nothing of the answer.
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
    )


def model_call_row(
    call_id: str,
    request: ChatRequest,
    completion: Completion | None,
    latency_ms: float,
    error: str | None,
    model_version: str,
    origin: Origin,
) -> ModelCall:
    """The `model_calls` row of a request; its texts are made storable.

    Args:
        call_id: identifies the call, not the request: one that is made twice is two rows.
        request: says what trajectory and step it is accounted to.
        completion: None when the call failed.
        latency_ms: from asking to the answer or the error, in milliseconds.
        error: one line, None when it was answered.
        model_version: of the model that was asked.
        origin: common columns.
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
        draw=request.draw,
        image_scale=request.image_scale,
        **origin.common(made_by=model_version),
    )


class AccountedModel:
    """A `ChatModel` that hands one row per call to `sink`, of failed and abandoned calls too.

    Ids of calls are the same when the same calls are made again in another process: equal requests are told apart by
    how often they have been made before.
    """

    def __init__(self, model: ChatModel, origin: Origin, sink: Callable[[ModelCall], None]) -> None:
        self._model = model
        self._origin = origin
        self._sink = sink
        self._made: Counter[str] = Counter()

    @property
    def version(self) -> str:
        """Version of the model that is asked."""
        return self._model.version

    def frame(self, screen: Size) -> CoordinateFrame:
        """The frame of the model that is asked."""
        return self._model.frame(screen)

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer a request.

        Raises:
            ModelFailure: no answer; it stands on the call's row.
        """
        start = perf_counter()
        completion, error = None, "the caller gave up waiting"
        try:
            completion = await self._model.complete(request)
            return completion
        except ModelFailure as failure:
            error = str(failure)
            raise
        finally:
            self._account(request, completion, (perf_counter() - start) * 1000, None if completion else error)

    async def close(self) -> None:
        """Close the model."""
        await self._model.close()

    def _account(self, request: ChatRequest, completion: Completion | None, ms: float, error: str | None) -> None:
        made_for = (self._origin.run_id, self._origin.round, request.role, request.trajectory_id, request.step_index)
        call = content_id("call", *made_for, payload_hash(request, self.version))
        self._made[call] += 1
        call_id = content_id(call, self._made[call])
        self._sink(model_call_row(call_id, request, completion, ms, error, self.version, self._origin))
