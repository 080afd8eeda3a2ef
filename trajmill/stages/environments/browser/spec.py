"""The spec of a browser on any web site."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from trajmill.stages.environments.spec import EnvironmentSpec, MissingKey, missing_tasks

if TYPE_CHECKING:
    from trajmill.schemas.record import Origin
    from trajmill.schemas.tables.query import Platform
    from trajmill.stages.environments.base import EnvironmentFactory
    from trajmill.stages.environments.tasks import ImportedQueries


class BrowserSpec(EnvironmentSpec):
    """Any web sites in headless Chromium (extra `web`)."""

    kind: Literal["browser"] = "browser"
    """Any web site."""
    tasks: Path | None = None
    """File with your own tasks: one JSON object in each line (see environments.md)."""

    def factory(self, platform: Platform) -> EnvironmentFactory:
        """A factory of browser contexts."""
        from trajmill.stages.environments.browser.environment import BrowserFactory

        return BrowserFactory(platform)

    @property
    def has_untried_tasks(self) -> bool:
        """Whether a file of tasks is named."""
        return self.tasks is not None

    async def own_queries(self, seed: int, origin: Origin) -> ImportedQueries:
        """The tasks of the file."""
        from trajmill.stages.environments.browser.task import read_task_file
        from trajmill.stages.environments.tasks import ImportedQueries

        return ImportedQueries(read_task_file(self.tasks, origin) if self.tasks else [], [])

    def missing(self, other_queries: bool) -> list[MissingKey]:
        """The file of tasks."""
        return missing_tasks(self.tasks, other_queries)
