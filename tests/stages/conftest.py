import pytest

from tests.stages.environments.simulated.worlds import task_of
from trajmill.stages.environments.simulated.world import TaskGraph, World, shared_world


@pytest.fixture(scope="session")
def world() -> World:
    return shared_world(())


@pytest.fixture(scope="session")
def order(world: World) -> TaskGraph:
    """A task with a choice, a switch, a stepper and a text field, all optional."""
    return task_of(world, "bites.order")
