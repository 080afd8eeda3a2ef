"""The spec of an environment: it is a table of the configuration, is sent to workers and opens the environment there.

A package of its own adds a kind of environment with one such class and one entry point (see `stages/parts.py`).
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
    from trajmill.stages.environments.imported import ImportedQueries
    from trajmill.stages.environments.simulated.world import World


class MissingKey(NamedTuple):
    """A key of a specification that must be set."""

    key: str
    message: str


class EnvironmentSpec(Spec):
    """Where episodes happen."""

    kind: str
    """Name of the kind of environment."""

    draws_screens: ClassVar[bool] = False
    """Whether it draws screens itself and only when their pixels are asked for, so that another process can do it."""
    annotated: ClassVar[bool] = False
    """Whether the embedded critics know what its pages mean."""
    has_desktop_programs: ClassVar[bool] = False
    """Whether it runs the programs that operations and pathways are made for without a file of the user's."""
    takes_proposed_tasks: ClassVar[bool] = True
    """Whether its start states can be used for other tasks than its own."""

    @abstractmethod
    def factory(self, platform: Platform) -> EnvironmentFactory:
        """Makes environments of a platform; an environment of one platform alone need not look at it."""

    async def own_queries(self, seed: int, origin: Origin) -> ImportedQueries:
        """The queries that it brings along, and the tasks that could not be asked for; none by default.

        Args:
            seed: of the run; chooses the seeds of tasks that have some.
            origin: common columns of the rows.

        Raises:
            BadInputError: a file of tasks, or the name of a task, is wrong.
            EnvironmentFailure: what the tasks need is not installed or does not start.
        """
        from trajmill.stages.environments.imported import ImportedQueries

        return ImportedQueries([], [])

    def navigation_graph(self) -> World | None:
        """The annotated apps from which queries are sampled; None where it has none.

        Raises:
            BadInputError: an app file is wrong.
        """
        return None

    def missing(self, other_queries: bool) -> list[MissingKey]:
        """What must be set before it can be used; files that are named and not there are found without it.

        Args:
            other_queries: whether the run also gets queries from elsewhere, so that it needs none of its own.
        """
        return []


def missing_tasks(tasks: Path | None, other_queries: bool) -> list[MissingKey]:
    """That a file of tasks is not named, where a run has no queries without one."""
    if tasks is None and not other_queries:
        return [MissingKey("tasks", "is missing: a file of your tasks, one JSON object in each line")]
    return []
