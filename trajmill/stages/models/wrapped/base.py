"""The base of models that wrap another model."""

from __future__ import annotations

from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.geometry import Size
from trajmill.stages.models.base import ChatModel, ChatRequest, Completion, forget_answer, gives_several


class WrappedModel:
    """A `ChatModel` that passes every call to another one."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model

    @property
    def unwrapped(self) -> ChatModel:
        """The other model, or what it wraps itself."""
        return self._model.unwrapped if isinstance(self._model, WrappedModel) else self._model

    @property
    def version(self) -> str:
        """Version of the other model."""
        return self._model.version

    @property
    def several_answers(self) -> bool:
        """Whether the other model gives several samples in one request."""
        return gives_several(self._model)

    def frame(self, screen: Size) -> CoordinateFrame:
        """The frame of the other model."""
        return self._model.frame(screen)

    async def complete(self, request: ChatRequest) -> Completion:
        """Ask the other model.

        Raises:
            ModelFailure: it does not answer.
        """
        return await self._model.complete(request)

    async def forget(self, request: ChatRequest) -> None:
        """Let the other model forget the answer to a request."""
        await forget_answer(self._model, request)

    async def close(self) -> None:
        """Close the other model."""
        await self._model.close()
