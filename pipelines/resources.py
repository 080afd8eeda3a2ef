"""What a worker needs by name, and how it is made there: environments and agents are described, never pickled."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path

import torch

from pipelines.models import ModelSpec
from schemas.query import Platform, Query
from stages.agents.base import Agent
from stages.agents.end_to_end import EndToEndAgent
from stages.agents.explorer import explorer_agent
from stages.agents.reference import ReferenceAgent
from stages.environments.base import EnvironmentFactory
from stages.environments.simulated.environment import FaultRates, SimulatedFactory
from stages.environments.simulated.world import World, load_world
from stages.models.base import ChatModel
from stages.models.embedded.storage import load_embedded_model
from stages.rollout.base import AgentMaker


@dataclass(frozen=True)
class EnvironmentSpec:
    """Which environment to start."""

    kind: str
    """`simulated` or `miniwob`."""
    app_files: tuple[Path, ...] = ()
    """The user's own app files, for the simulated world."""
    faults: FaultRates = field(default_factory=FaultRates)

    @property
    def draws_screens(self) -> bool:
        """Whether pixels are made only when asked for, and making them is work that another process can do."""
        return self.kind == "simulated"

    def factory(self, platform: Platform) -> EnvironmentFactory:
        """A factory for environments of a platform."""
        if self.kind == "miniwob":
            from stages.environments.miniwob.environment import MiniWobFactory

            return MiniWobFactory()
        return SimulatedFactory(world_of(self.app_files), platform, self.faults)


@dataclass(frozen=True)
class AgentSpec:
    """Which agent to let act."""

    name: str
    """`end_to_end`, `explorer` or `reference`."""
    model: Path | ModelSpec | None = None
    """Folder of the embedded policy's weights, or the endpoint of another policy; None for the reference agent."""
    temperature: float = 1.0

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[AgentMaker]:
        """What makes the agent for a query; all agents share one model, which is let go of at the end."""
        if self.model is None:
            yield ReferenceAgent
            return
        model = self.model.connect() if isinstance(self.model, ModelSpec) else load_embedded_model(self.model)
        use_one_thread()
        try:
            yield partial(self._agent, model)
        finally:
            await model.close()

    def _agent(self, model: ChatModel, query: Query) -> Agent:
        if self.name == "explorer":
            return explorer_agent(model, query.platform)
        return EndToEndAgent(model, query.platform, self.temperature)


def use_one_thread() -> None:
    """Let torch compute on one core in this process.

    The embedded networks are so small that more threads cost more than they give, and sums come out the same on every
    machine.
    """
    torch.set_num_threads(1)


@lru_cache(maxsize=2)
def world_of(app_files: tuple[Path, ...]) -> World:
    """The simulated world with the user's own apps; one per process, since its drawn views are shared."""
    return load_world(app_files)
