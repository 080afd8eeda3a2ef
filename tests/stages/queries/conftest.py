import pytest

from tests.stages.environments.simulated.worlds import task_of
from trajmill.schemas.record import Origin
from trajmill.stages.environments.simulated.world import TaskGraph, World, shared_world


@pytest.fixture(scope="session")
def world() -> World:
    return shared_world(())


@pytest.fixture(scope="session")
def order(world: World) -> TaskGraph:
    """A task with a choice, a switch, a stepper and a text field, all optional."""
    return task_of(world, "bites.order")


@pytest.fixture(scope="session")
def origin() -> Origin:
    return Origin(round=1, run_id="run", code_version="code")
