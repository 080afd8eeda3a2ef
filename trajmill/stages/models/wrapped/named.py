"""A model with another version."""

from __future__ import annotations

from trajmill.stages.models.base import ChatModel
from trajmill.stages.models.wrapped.base import WrappedModel


class NamedModel(WrappedModel):
    """A `ChatModel` whose rows store the run's version of the policy and not a hash of its folder."""

    def __init__(self, model: ChatModel, version: str) -> None:
        super().__init__(model)
        self._version = version

    @property
    def version(self) -> str:
        """The run's version of the policy."""
        return self._version
