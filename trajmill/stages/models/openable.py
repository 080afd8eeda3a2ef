"""The protocol of models that are described but not yet connected."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from trajmill.schemas.record import Origin
from trajmill.schemas.tables.model_call import ModelCall

if TYPE_CHECKING:
    from trajmill.stages.models.base import ChatModel


class OpenableModel(Protocol):
    """The spec of a model that a stage asks."""

    def open(self, origin: Origin, sink: Callable[[ModelCall], None]) -> ChatModel:
        """The model, with a row for each call given to `sink`.

        Raises:
            BadInputError: the model cannot be connected.
        """
        ...
