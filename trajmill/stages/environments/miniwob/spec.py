"""The spec of MiniWoB++ as an environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import NonNegativeInt, PositiveInt

from trajmill.stages.environments.spec import FixedTasksSpec

if TYPE_CHECKING:
    from trajmill.schemas.record import Origin
    from trajmill.schemas.tables.query import Platform
    from trajmill.stages.environments.base import EnvironmentFactory
    from trajmill.stages.environments.tasks import ImportedQueries


SuiteName = Literal["all", "basic", "debug"]


class MiniWobSpec(FixedTasksSpec):
    """MiniWoB++ in headless Chromium (extra `web`)."""

    kind: Literal["miniwob"] = "miniwob"
    """The pages of MiniWoB++."""
    suite: SuiteName = "basic"
    """The pages: `all` that work, `basic` for 23 with presses and short texts, or `debug` for three."""
    tasks: tuple[str, ...] = ()
    """Names of pages, in place of the suite."""
    train_seeds: PositiveInt = 8
    """Instances of each task for training."""
    heldout_seeds: PositiveInt = 4
    """Instances of each task that only measure the policy."""
    validation_seeds: NonNegativeInt = 3
    """Instances of each task that decide which policy is promoted."""

    def factory(self, platform: Platform) -> EnvironmentFactory:
        from trajmill.stages.environments.miniwob.environment import MiniWobFactory

        return MiniWobFactory()

    async def own_queries(self, seed: int, origin: Origin) -> ImportedQueries:
        from trajmill.stages.environments.miniwob.pages import refuse_unknown_pages, suite_pages

        pages = self.tasks or suite_pages(self.suite)
        refuse_unknown_pages(pages, "environment.tasks")
        from trajmill.stages.environments.miniwob.environment import import_queries
        from trajmill.stages.environments.tasks import splits_of_seeds

        splits = splits_of_seeds(self.train_seeds, self.heldout_seeds, self.validation_seeds)
        return await import_queries(pages, splits, seed, origin)
