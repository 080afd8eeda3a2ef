"""A model that stays loaded when it is closed."""

from __future__ import annotations

from trajmill.stages.models.wrapped.base import WrappedModel


class KeptLoadedModel(WrappedModel):
    """A `ChatModel` that is not unloaded when it is closed, because the next shard of this worker asks it again."""

    async def close(self) -> None:
        """Keep the weights."""
