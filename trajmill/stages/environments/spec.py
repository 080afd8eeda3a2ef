"""The base of the specs of environments; another package adds a kind with a spec and an entry point."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from trajmill.schemas.spec import Spec

if TYPE_CHECKING:
    from trajmill.schemas.record import Origin
    from trajmill.schemas.tables.query import Platform, Query
    from trajmill.stages.environments.base import EnvironmentFactory
    from trajmill.stages.environments.tasks import ImportedQueries


class MissingKey(NamedTuple):
    key: str
    message: str


class EnvironmentSpec(Spec):
    """The environment of the episodes."""

    kind: str

    draws_screens: ClassVar[bool] = False
    """Whether it draws screens only when their pixels are needed, so that another process can draw them."""

    @abstractmethod
    def factory(self, platform: Platform) -> EnvironmentFactory:
        """Return a factory of environments of a platform; a kind with one platform ignores it."""

    async def own_queries(self, seed: int, origin: Origin) -> ImportedQueries:
        """Return its own tasks as queries; raises BadInputError, or EnvironmentFailure if what they need is missing."""
        from trajmill.stages.environments.tasks import ImportedQueries

        return ImportedQueries([], [])

    def resting_apps(self, round_number: int) -> frozenset[str]:
        """Return the apps whose training queries are not attempted in a round."""
        return frozenset()

    def added_apps(self) -> frozenset[str]:
        """Return the apps whose training queries get episodes beside those of `rollout.episodes_per_round`."""
        return frozenset()

    @property
    def slow_seconds(self) -> float:
        """What restoring a machine, or another program's setup and evaluation, may add to a reset or a score."""
        return 0.0

    def missing(self, other_queries: bool) -> list[MissingKey]:
        return []


class FixedTasksSpec(EnvironmentSpec):
    """An environment whose start states serve only its own tasks; no others can be proposed for it."""


class TaskFileSpec(EnvironmentSpec):
    """An environment with a user's file of tasks."""

    tasks: Path | None = None
    """File with your own tasks: one JSON object in each line (see environments.md)."""

    line: ClassVar[str]
    """The form of a task, a `TaskLine`, as `package.module:Class`."""

    def read_tasks(self, file: Path, origin: Origin) -> list[Query]:
        """Read the queries of a file. Raises BadInputError if the file cannot be read, or a line is no task."""
        from trajmill.stages.environments.tasks import query_of, read_task_lines

        line = resolve_name(self.line)
        return read_task_lines(file, lambda text: query_of(line.model_validate_json(text), origin))

    async def own_queries(self, seed: int, origin: Origin) -> ImportedQueries:
        from trajmill.stages.environments.tasks import ImportedQueries

        return ImportedQueries(self.read_tasks(self.tasks, origin) if self.tasks else [], [], untried=True)

    def missing(self, other_queries: bool) -> list[MissingKey]:
        if self.tasks is None and not other_queries:
            return [MissingKey("tasks", "is missing: a file of your tasks, one JSON object in each line")]
        return []
