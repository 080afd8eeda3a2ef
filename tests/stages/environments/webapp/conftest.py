from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.stages.environments.simulated.worlds import everything
from tests.stages.environments.webapp.twins import POPUP
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.webapp.environment import WebAppEnvironment, WebAppFactory


class Browser:
    """One event loop, and one environment of each platform on it."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.world = everything()
        self._factories: dict[Platform, WebAppFactory] = {}
        self._environments: dict[Platform, WebAppEnvironment] = {}

    def on(self, platform: Platform) -> WebAppEnvironment:
        if platform not in self._environments:
            self._factories[platform] = WebAppFactory(self.world, platform, POPUP)
            self._environments[platform] = self.loop.run_until_complete(self._factories[platform]())
        return self._environments[platform]

    def close(self) -> None:
        for factory in self._factories.values():
            self.loop.run_until_complete(factory.close())
        self.loop.close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    made = Browser()
    yield made
    made.close()
