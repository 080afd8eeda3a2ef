"""The specification of the simulated apps as a web app."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from trajmill.stages.environments.spec import EnvironmentSpec

if TYPE_CHECKING:
    from trajmill.schemas.tables.query import Platform
    from trajmill.stages.environments.base import EnvironmentFactory
    from trajmill.stages.environments.simulated.world import World


class WebAppSpec(EnvironmentSpec):
    """The apps of the simulated phone and desktop as a web app in headless Chromium (extra `web`)."""

    annotated: ClassVar[bool] = True

    kind: Literal["webapp"] = "webapp"
    """The simulated apps in a real browser."""
    apps: tuple[Path, ...] = ()
    """App files of your own (YAML, see apps.md), beside the built-in ones."""

    def factory(self, platform: Platform) -> EnvironmentFactory:
        """Makes browser contexts with the apps of a platform."""
        from trajmill.stages.environments.webapp.environment import WebAppFactory

        return WebAppFactory(self.navigation_graph(), platform)

    def navigation_graph(self) -> World:
        """The built-in apps and the user's own."""
        from trajmill.stages.environments.simulated.world import shared_world

        return shared_world(self.apps)
