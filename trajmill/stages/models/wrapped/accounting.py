"""Makes a `model_calls` row for each call of a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple

from trajmill.schemas.errors import ModelFailure
from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.stages.models.base import ChatModel, ChatRequest, Completion
from trajmill.stages.models.model_call_row import model_call_row, payload_hash
from trajmill.stages.models.wrapped.base import WrappedModel


class Accounting(NamedTuple):
    """The receiver of the rows of a model's calls, and their common columns."""

    origin: Origin
    sink: Callable[[ModelCall], None]


class AccountedModel(WrappedModel):
    """A `ChatModel` that gives `sink` one row for each call, also for failed and cancelled ones.

    The same calls in another process get the same ids: equal requests are numbered in their order.
    """

    def __init__(self, model: ChatModel, origin: Origin, sink: Callable[[ModelCall], None]) -> None:
        super().__init__(model)
        self._origin = origin
        self._sink = sink
        self._made: Counter[str] = Counter()

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer a request.

        Raises:
            ModelFailure: no answer; the row has its message.
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

    def _account(self, request: ChatRequest, completion: Completion | None, ms: float, error: str | None) -> None:
        made_for = (self._origin.run_id, self._origin.round, request.role, request.trajectory_id, request.step_index)
        call = content_id("call", *made_for, payload_hash(request, self.version))
        self._made[call] += 1
        call_id = content_id(call, self._made[call])
        self._sink(model_call_row(call_id, request, completion, ms, error, self.version, self._origin))
