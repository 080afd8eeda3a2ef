from collections.abc import Iterator

import pytest

from tests.stages.environments.android.stand_in.phone import Phone
from tests.stages.environments.android.stand_in.server import AdbServer, serving
from trajmill.stages.environments.simulated.world import World


@pytest.fixture
def phones(world: World, request: pytest.FixtureRequest) -> list[Phone]:
    """Two phones; the parameter is how often an app shows a message when it is opened."""
    return [Phone(serial, world, popup=getattr(request, "param", 0.0)) for serial in ("emulator-5554", "emulator-5556")]


@pytest.fixture
def phone(phones: list[Phone]) -> Phone:
    return phones[0]


@pytest.fixture
def server(phones: list[Phone]) -> Iterator[AdbServer]:
    with serving(phones) as server:
        yield server
