"""A model that stays loaded when its user closes it."""

from __future__ import annotations

from trajmill.stages.models.wrapped.base import WrappedModel


class KeptLoadedModel(WrappedModel):
    """A `ChatModel` that closing does not unload: the next shard of this worker asks it again."""

    async def close(self) -> None:
        """Keep the weights."""
