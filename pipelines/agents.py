"""Describes the agent of a stage, which the workers open."""

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
    """Its model; None for an agent without a model."""
    temperature: float = 1.0
    with_tokens: bool = False
    """Whether the tokens of the model's replies are asked for."""

    def identity(self) -> object:
        """Everything that decides its steps; the weights of its model by the name of their folder, which is a hash."""
        model_fields = self.endpoint and self.endpoint.spec.model_dump(mode="json")
        version = self.endpoint and self.endpoint.version
        return [self.spec.identity(), model_fields, version, self.temperature, self.with_tokens]

    @asynccontextmanager
    async def open(self) -> AsyncIterator[AgentMaker]:
        """Give a function that makes the agent for a query; all agents share one model, which is closed at the end.

        Raises:
            BadInputError: the model cannot be connected.
        """
        if self.endpoint is None:
            yield self.spec.open(None)
            return
        model = self.endpoint.connect()
        try:
            family = self.endpoint.spec.vision_family
            yield self.spec.open(AgentModel(model, family, self.temperature, self.with_tokens))
        finally:
            await model.close()
