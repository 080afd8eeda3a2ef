"""A model under another version."""

from __future__ import annotations

from trajmill.stages.models.base import ChatModel
from trajmill.stages.models.wrapped.base import WrappedModel


class NamedModel(WrappedModel):
    """A `ChatModel` whose rows store the version that a run knows it by, not a hash of its folder."""

    def __init__(self, model: ChatModel, version: str) -> None:
        super().__init__(model)
        self._version = version

    @property
    def version(self) -> str:
        """The version that the run knows it by."""
        return self._version
