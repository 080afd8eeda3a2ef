"""The spec of a browser on any web site."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from trajmill.stages.environments.spec import TaskFileSpec

if TYPE_CHECKING:
    from trajmill.schemas.record import Origin
    from trajmill.schemas.tables.query import Platform, Query
    from trajmill.stages.environments.base import EnvironmentFactory


class BrowserSpec(TaskFileSpec):
    """Any web sites in headless Chromium (extra `web`)."""

    kind: Literal["browser"] = "browser"
    """Any web site."""

    def factory(self, platform: Platform) -> EnvironmentFactory:
        from trajmill.stages.environments.browser.environment import BrowserFactory

        return BrowserFactory(platform)

    def read_tasks(self, file: Path, origin: Origin) -> list[Query]:
        from trajmill.stages.environments.browser.task import read_task_file

        return read_task_file(file, origin)
