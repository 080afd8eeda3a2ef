"""The protocol of a model that embeds texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from trajmill.schemas.errors import BadInputError
from trajmill.stages.models.base import ChatModel
from trajmill.stages.models.wrapped.base import WrappedModel

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
