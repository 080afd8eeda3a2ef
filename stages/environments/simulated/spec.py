"""The spec of the simulated phone and desktop."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from trajmill.schemas.spec import Fraction, Spec
from trajmill.stages.environments.spec import EnvironmentSpec

if TYPE_CHECKING:
    from trajmill.schemas.tables.query import Platform
    from trajmill.stages.environments.base import EnvironmentFactory
    from trajmill.stages.environments.simulated.world import World


class FaultRates(Spec):
    """How often things go wrong in the simulated world; decided by the seed of the episode."""

    slow: Fraction = 0.0
    """A new page of an app first shows as loading, until a wait or any other action."""
    lost_tap: Fraction = 0.0
    """A press has no effect."""
    popup: Fraction = 0.1
    """An app that is opened asks to be rated, or shows an advertisement in its lists; harmless but in the way."""
    crash: Fraction = 0.0
    """A step fails, and the episode with it."""


class AppFilesSpec(EnvironmentSpec):
    """An environment that runs app files."""

    annotated: ClassVar[bool] = True

    apps: tuple[Path, ...] = ()
    """App files of your own (YAML, see apps.md), beside the built-in ones."""

    def navigation_graph(self) -> World:
        """The built-in apps and the user's own; loaded once in a process."""
        from trajmill.stages.environments.simulated.world import shared_world

        return shared_world(self.apps)


class SimulatedSpec(AppFilesSpec):
    """The simulated phone and desktop, which need nothing but this package."""

    draws_screens: ClassVar[bool] = True

    kind: Literal["simulated"] = "simulated"
    """The simulated phone and desktop."""
    faults: FaultRates = FaultRates()
    """How often things go wrong."""

    def factory(self, platform: Platform) -> EnvironmentFactory:
        """Makes simulated devices, which share one world in a process."""
        from trajmill.stages.environments.simulated.environment import SimulatedFactory

        return SimulatedFactory(self.navigation_graph(), platform, self.faults)
