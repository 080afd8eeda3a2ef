"""The agent of a stage as its workers open it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from trajmill.pipelines.models import Endpoint
from trajmill.stages.agents.base import AgentMaker, AgentModel
from trajmill.stages.agents.spec import AgentSpec


@dataclass(frozen=True)
class ActingAgent:
    """Which agent acts, and with which model."""

    spec: AgentSpec
    endpoint: Endpoint | None = None
    """Its model; None for an agent that asks nobody."""
    temperature: float = 1.0

    def identity(self) -> object:
        """All that decides its steps; the weights of its model count by the name of their folder, which is a hash."""
        asked = self.endpoint and self.endpoint.spec.model_dump(mode="json")
        return [self.spec.identity(), asked, self.temperature]

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[AgentMaker]:
        """What makes the agent for a query; all agents share one model, which is let go of at the end.

        Raises:
            BadInputError: the model cannot be connected.
        """
        if self.endpoint is None:
            yield self.spec.open(None)
            return
        model = self.endpoint.connect()
        try:
            yield self.spec.open(AgentModel(model, self.endpoint.spec.vision_family, self.temperature))
        finally:
            await model.close()
