"""Which environments a worker starts: described by values, started where they are used."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.base import EnvironmentFactory
from trajmill.stages.environments.simulated.environment import FaultRates, SimulatedFactory
from trajmill.stages.environments.simulated.world import World, load_world


class EnvironmentSpec(Protocol):
    """What makes the environments of a run; picklable."""

    @property
    def kind(self) -> str:
        """Name of the environment in the configuration."""
        ...

    @property
    def draws_screens(self) -> bool:
        """Whether pixels are made only when asked for, and making them is work that another process can do."""
        ...

    def factory(self, platform: Platform) -> EnvironmentFactory:
        """A factory for environments of a platform."""
        ...


@dataclass(frozen=True)
class SimulatedSpec:
    """The simulated phone and desktop."""

    app_files: tuple[Path, ...] = ()
    """The user's own app files."""
    faults: FaultRates = field(default_factory=FaultRates)
    kind: str = "simulated"
    draws_screens: bool = True

    def factory(self, platform: Platform) -> EnvironmentFactory:
        """A factory for simulated devices."""
        return SimulatedFactory(world_of(self.app_files), platform, self.faults)


@dataclass(frozen=True)
class MiniWobSpec:
    """MiniWoB++ in headless Chromium."""

    kind: str = "miniwob"
    draws_screens: bool = False

    def factory(self, platform: Platform) -> EnvironmentFactory:
        """A factory for browser contexts."""
        from trajmill.stages.environments.miniwob.environment import MiniWobFactory

        return MiniWobFactory()


@dataclass(frozen=True)
class WebAppSpec:
    """The simulated apps as a web app in headless Chromium."""

    app_files: tuple[Path, ...] = ()
    """The user's own app files."""
    kind: str = "webapp"
    draws_screens: bool = False

    def factory(self, platform: Platform) -> EnvironmentFactory:
        """A factory for browser contexts with the apps of a platform."""
        from trajmill.stages.environments.webapp.environment import WebAppFactory

        return WebAppFactory(world_of(self.app_files), platform)


@dataclass(frozen=True)
class BrowserSpec:
    """Web sites in headless Chromium."""

    kind: str = "browser"
    draws_screens: bool = False

    def factory(self, platform: Platform) -> EnvironmentFactory:
        """A factory for browser contexts."""
        from trajmill.stages.environments.browser.environment import BrowserFactory

        return BrowserFactory(platform)


@dataclass(frozen=True)
class BrowserGymSpec:
    """BrowserGym's tasks."""

    kind: str = "browsergym"
    draws_screens: bool = False

    def factory(self, platform: Platform) -> EnvironmentFactory:
        """A factory for BrowserGym's own environments."""
        from trajmill.stages.environments.browsergym.factory import BrowserGymFactory

        return BrowserGymFactory()


@dataclass(frozen=True)
class AndroidSpec:
    """Android devices over adb."""

    settings: str
    """JSON of `AndroidSettings`."""
    kind: str = "android"
    draws_screens: bool = False

    def factory(self, platform: Platform) -> EnvironmentFactory:
        """A factory that leases devices."""
        from trajmill.stages.environments.android.factory import AndroidFactory
        from trajmill.stages.environments.android.settings import AndroidSettings

        return AndroidFactory(AndroidSettings.model_validate_json(self.settings))


@dataclass(frozen=True)
class DesktopSpec:
    """Desktops that speak the OSWorld server protocol: a team's machines, or ones started here."""

    servers: tuple[str, ...]
    """Addresses of machines; without any, desktops are started on this machine."""
    task_folder: Path
    kind: str = "desktop"
    draws_screens: bool = False

    def factory(self, platform: Platform) -> EnvironmentFactory:
        """A factory for desktops."""
        from trajmill.stages.environments.desktop.factory import LocalDesktops, RemoteDesktops

        if self.servers:
            return RemoteDesktops(self.servers, self.task_folder)
        return LocalDesktops(self.task_folder)


@lru_cache(maxsize=2)
def world_of(app_files: tuple[Path, ...]) -> World:
    """The simulated world with the user's own apps; one per process, since its drawn views are shared."""
    return load_world(app_files)
