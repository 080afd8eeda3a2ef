"""What a worker needs by name, and how it is made there: environments and agents are described, never pickled."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from trajmill.pipelines.models import Endpoint
from trajmill.schemas.dialects.families import ANY
from trajmill.schemas.tables.query import Query
from trajmill.stages.agents.base import Agent
from trajmill.stages.agents.end_to_end import EndToEndAgent
from trajmill.stages.agents.explorer import explorer_agent
from trajmill.stages.agents.reference import ReferenceAgent
from trajmill.stages.models.base import ChatModel
from trajmill.stages.models.embedded.storage import load_embedded_model
from trajmill.stages.rollout.base import AgentMaker


@dataclass(frozen=True)
class AgentSpec:
    """Which agent to let act."""

    name: str
    """`end_to_end`, `explorer` or `reference`."""
    model: Path | Endpoint | None = None
    """Folder of the embedded policy's weights, or the endpoint of another policy; None for the reference agent."""
    temperature: float = 1.0

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[AgentMaker]:
        """What makes the agent for a query; all agents share one model, which is let go of at the end."""
        if self.model is None:
            yield ReferenceAgent
            return
        model = self.model.connect() if isinstance(self.model, Endpoint) else load_embedded_model(self.model)
        use_one_thread()
        try:
            yield partial(self._agent, model)
        finally:
            await model.close()

    def _agent(self, model: ChatModel, query: Query) -> Agent:
        if self.name == "explorer":
            return explorer_agent(model, query.platform)
        family = self.model.spec.vision_family if isinstance(self.model, Endpoint) else ANY
        return EndToEndAgent(model, query.platform, self.temperature, family=family)


def use_one_thread() -> None:
    """Let torch compute on one core in this process.

    The embedded networks are so small that more threads cost more than they give, and sums come out the same on every
    machine.
    """
    torch.set_num_threads(1)
