"""The spec of the simulated phone and desktop."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, runtime_checkable

from pydantic import PositiveInt

from trajmill.schemas.spec import Fraction, Spec
from trajmill.stages.environments.spec import EnvironmentSpec

if TYPE_CHECKING:
    from trajmill.schemas.tables.query import Platform
    from trajmill.stages.environments.base import EnvironmentFactory, GoalDistances
    from trajmill.stages.environments.simulated.app_files.app_spec import AppSpec
    from trajmill.stages.environments.simulated.world import World


class FaultRates(Spec):
    """The rates of faults in the simulated world; the seed of the episode decides when they happen."""

    slow: Fraction = 0.0
    """A new page of an app is loading until the next action."""
    lost_tap: Fraction = 0.0
    """A press has no effect."""
    popup: Fraction = 0.1
    """An app that is opened shows a dialog that asks for a rating, or an advertisement in its lists."""
    crash: Fraction = 0.0
    """A step fails, and with it the episode."""


class DevicesSpec(Spec):
    """How much the simulated devices differ. There are eight looks; two are used in evaluation only."""

    orders: PositiveInt = 1
    """Orders of icons and lists that are drawn for each look, so that a policy cannot learn them by heart."""
    dark: bool = True
    """Whether every other look has the dark theme."""
    large_text: bool = True
    """Whether half of the looks have larger text."""


@runtime_checkable
class RunsApps(Protocol):
    """An environment whose episodes can use apps of app files."""

    def described_apps(self) -> tuple[AppSpec, ...]:
        """The apps. Raises BadInputError if an app file is wrong."""
        ...


class AppFilesSpec(EnvironmentSpec):
    """An environment that runs app files: queries are sampled from their graph, and judged by their annotations."""

    apps: tuple[Path, ...] = ()
    """Your own app files (YAML, see apps.md), beside the built-in ones."""
    builtin_apps: tuple[str, ...] | None = None
    """Ids of the built-in apps to include; all by default."""

    def navigation_graph(self) -> World:
        """Load the apps once in a process; raises BadInputError if a file is wrong, or an app is unknown."""
        from trajmill.stages.environments.simulated.world import shared_world

        return shared_world(self.apps, self.builtin_apps)

    def described_apps(self) -> tuple[AppSpec, ...]:
        return tuple(self.navigation_graph().apps.values())


class SimulatedSpec(AppFilesSpec):
    """The simulated phone and desktop, which need only this package."""

    draws_screens: ClassVar[bool] = True

    kind: Literal["simulated"] = "simulated"
    """The simulated phone and desktop."""
    faults: FaultRates = FaultRates()
    """The rates of faults."""
    devices: DevicesSpec = DevicesSpec()
    """How much the devices differ."""

    def factory(self, platform: Platform) -> EnvironmentFactory:
        from trajmill.stages.environments.simulated.environment import SimulatedFactory

        return SimulatedFactory(self.navigation_graph(), platform, self.faults, self.devices)

    def goal_distances(self) -> GoalDistances:
        from trajmill.stages.environments.simulated.distance import SimulatedDistances

        return SimulatedDistances(self.navigation_graph(), self.faults, self.devices)
