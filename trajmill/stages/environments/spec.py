"""The base of the specs of environments: a table of the configuration, which workers get and open.

Another package adds a kind of environment with one such class and one entry point (see `stages/parts.py`).
"""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from trajmill.schemas.spec import Spec

if TYPE_CHECKING:
    from trajmill.schemas.record import Origin
    from trajmill.schemas.tables.query import Platform
    from trajmill.stages.environments.base import EnvironmentFactory
    from trajmill.stages.environments.simulated.app_files.app_spec import AppSpec
    from trajmill.stages.environments.simulated.world import World
    from trajmill.stages.environments.tasks import ImportedQueries


class MissingKey(NamedTuple):
    """A key of a spec that must be set."""

    key: str
    message: str


class EnvironmentSpec(Spec):
    """The environment of the episodes."""

    kind: str
    """Name of the kind of environment."""

    draws_screens: ClassVar[bool] = False
    """Whether it draws screens only when their pixels are needed, so that another process can draw them."""
    annotated: ClassVar[bool] = False
    """Whether the embedded critics know the annotations of its pages."""
    has_desktop_programs: ClassVar[bool] = False
    """Whether it runs the built-in programs of operations and pathways, without a file of the user."""
    has_navigation_graph: ClassVar[bool] = False
    """Whether queries can be sampled from `navigation_graph`."""
    several_devices: ClassVar[bool] = False
    """Whether one episode may go from device to device."""
    takes_proposed_tasks: ClassVar[bool] = True
    """Whether other tasks than its own can use its start states."""

    @abstractmethod
    def factory(self, platform: Platform) -> EnvironmentFactory:
        """A factory of environments of a platform; a kind with one platform ignores it."""

    async def own_queries(self, seed: int, origin: Origin) -> ImportedQueries:
        """Its own queries, and the tasks that could not be started; none by default.

        Args:
            seed: seed of the run; it decides the seeds of tasks.
            origin: common columns of the rows.

        Raises:
            BadInputError: a file of tasks, or the name of a task, is wrong.
            EnvironmentFailure: something that the tasks need is not installed or does not start.
        """
        from trajmill.stages.environments.tasks import ImportedQueries

        return ImportedQueries([], [])

    @property
    def has_untried_tasks(self) -> bool:
        """Whether its own queries come from a file of the user, so that their goals may hold at the start."""
        return False

    def navigation_graph(self) -> World | None:
        """The annotated apps from which queries are sampled; None if it has none.

        Raises:
            BadInputError: an app file is wrong.
        """
        return None

    def described_apps(self) -> tuple[AppSpec, ...]:
        """The simulated apps that an episode can use; those of the navigation graph by default.

        Raises:
            BadInputError: an app file is wrong.
        """
        world = self.navigation_graph()
        return tuple(world.apps.values()) if world else ()

    def missing(self, other_queries: bool) -> list[MissingKey]:
        """The missing keys; missing files are not checked here.

        Args:
            other_queries: whether the run has queries from another source, so that it needs none of its own.
        """
        return []


def missing_tasks(tasks: Path | None, other_queries: bool) -> list[MissingKey]:
    """The missing key of a file of tasks, if the run has no other queries."""
    if tasks is None and not other_queries:
        return [MissingKey("tasks", "is missing: a file of your tasks, one JSON object in each line")]
    return []
