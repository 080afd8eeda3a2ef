"""What a worker needs by name, and how it is made there: environments and agents are described, never pickled."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import torch

from schemas.query import Platform
from stages.agents.end_to_end import EndToEndAgent
from stages.agents.explorer import explorer_agent
from stages.agents.reference import ReferenceAgent
from stages.environments.base import EnvironmentFactory
from stages.environments.simulated.environment import FaultRates, SimulatedFactory
from stages.environments.simulated.world import World, load_world
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
    model: Path | None = None
    """Folder of the policy's weights; None for the reference agent."""
    temperature: float = 1.0

    def maker(self) -> AgentMaker:
        """What makes the agent for a query; all agents of a maker share one model."""
        if self.model is None:
            return ReferenceAgent
        use_one_thread()
        model = load_embedded_model(self.model)
        if self.name == "explorer":
            return lambda query: explorer_agent(model, query.platform)
        return lambda query: EndToEndAgent(model, query.platform, self.temperature)


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
