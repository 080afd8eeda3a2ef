"""The spec of BrowserGym as an environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import NonNegativeInt, PositiveInt

from trajmill.stages.environments.spec import FixedTasksSpec

if TYPE_CHECKING:
    from trajmill.schemas.record import Origin
    from trajmill.schemas.tables.query import Platform
    from trajmill.stages.environments.base import EnvironmentFactory
    from trajmill.stages.environments.tasks import ImportedQueries


class BrowserGymSpec(FixedTasksSpec):
    """Tasks of BrowserGym (extra `browsergym`)."""

    kind: Literal["browsergym"] = "browsergym"
    """BrowserGym."""
    tasks: tuple[str, ...] = (
        "miniwob.click-button",
        "miniwob.click-dialog",
        "miniwob.click-link",
        "miniwob.enter-text",
    )
    """Names of its tasks, without `browsergym/`."""
    train_seeds: PositiveInt = 4
    """Instances of each task for training."""
    heldout_seeds: PositiveInt = 2
    """Instances of each task that only measure the policy."""
    validation_seeds: NonNegativeInt = 2
    """Instances of each task that decide which policy is promoted."""

    def factory(self, platform: Platform) -> EnvironmentFactory:
        from trajmill.stages.environments.browsergym.environment import BrowserGymFactory

        return BrowserGymFactory()

    async def own_queries(self, seed: int, origin: Origin) -> ImportedQueries:
        from trajmill.stages.environments.browsergym.environment import import_tasks
        from trajmill.stages.environments.tasks import splits_of_seeds

        splits = splits_of_seeds(self.train_seeds, self.heldout_seeds, self.validation_seeds)
        return await import_tasks(self.tasks, splits, seed, origin)
