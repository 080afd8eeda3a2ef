"""The spec of the simulated apps as a web app."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from trajmill.stages.environments.simulated.spec import AppFilesSpec

if TYPE_CHECKING:
    from trajmill.schemas.tables.query import Platform
    from trajmill.stages.environments.base import EnvironmentFactory


class WebAppSpec(AppFilesSpec):
    """The apps of the simulated phone and desktop as a web app in headless Chromium (extra `web`)."""

    kind: Literal["webapp"] = "webapp"
    """The simulated apps in a real browser."""

    def factory(self, platform: Platform) -> EnvironmentFactory:
        from trajmill.stages.environments.webapp.environment import WebAppFactory

        return WebAppFactory(self.navigation_graph(), platform)
