"""The base of models that stand before another model."""

from __future__ import annotations

from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.geometry import Size
from trajmill.stages.models.base import ChatModel, ChatRequest, Completion, gives_several


class WrappedModel:
    """A `ChatModel` that passes everything on to another one."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model

    @property
    def version(self) -> str:
        """Version of the model that is asked."""
        return self._model.version

    @property
    def several_answers(self) -> bool:
        """Whether the model that is asked gives several samples in one request."""
        return gives_several(self._model)

    def frame(self, screen: Size) -> CoordinateFrame:
        """The frame of the model that is asked."""
        return self._model.frame(screen)

    async def complete(self, request: ChatRequest) -> Completion:
        """Ask the model.

        Raises:
            ModelFailure: it does not answer.
        """
        return await self._model.complete(request)

    async def close(self) -> None:
        """Close the model."""
        await self._model.close()
