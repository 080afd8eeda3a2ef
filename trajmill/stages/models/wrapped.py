"""Models that wrap another model: with another version, kept loaded, or with a row for each call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import NamedTuple, Protocol, runtime_checkable

from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.errors import BadInputError, ModelFailure
from trajmill.schemas.geometry import Size
from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.stages.models.base import ChatModel, ChatRequest, Completion, forget_answer, gives_several
from trajmill.stages.models.model_call_row import model_call_row, payload_hash


class WrappedModel:
    """A `ChatModel` that passes every call to another one.

    Args:
        model: the other model.
        version: the version of the rows, e.g. the run's name of a policy; the other model's own if empty.
    """

    def __init__(self, model: ChatModel, version: str = "") -> None:
        self._model = model
        self._version = version

    @property
    def unwrapped(self) -> ChatModel:
        """The other model, or what it wraps itself."""
        return self._model.unwrapped if isinstance(self._model, WrappedModel) else self._model

    @property
    def version(self) -> str:
        return self._version or self._model.version

    @property
    def several_answers(self) -> bool:
        return gives_several(self._model)

    def frame(self, screen: Size) -> CoordinateFrame:
        return self._model.frame(screen)

    async def complete(self, request: ChatRequest) -> Completion:
        return await self._model.complete(request)

    async def forget(self, request: ChatRequest) -> None:
        await forget_answer(self._model, request)

    async def close(self) -> None:
        await self._model.close()


class KeptLoadedModel(WrappedModel):
    """A `ChatModel` that is not unloaded when it is closed, because the next shard of this worker asks it again."""

    async def close(self) -> None: ...


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


Vector = tuple[float, ...]


@runtime_checkable
class EmbeddingModel(Protocol):
    """A model that gives a vector for a text; vectors of texts with like meanings point in like directions."""

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """The vectors of texts, in their order, all equally long.

        Raises:
            ModelFailure: it does not answer.
        """
        ...


def embedding_model(model: ChatModel) -> EmbeddingModel:
    """The model of an endpoint, if it embeds texts. Its vectors are not cached.

    Raises:
        BadInputError: it is of a kind that embeds none.
    """
    asked = model.unwrapped if isinstance(model, WrappedModel) else model
    if not isinstance(asked, EmbeddingModel):
        raise BadInputError(f"{model.version} embeds no texts: name an endpoint of kind openai_api")
    return asked
