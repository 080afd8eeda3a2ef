"""The spec of Android devices as an environment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from trajmill.schemas.spec import OPERATIONAL
from trajmill.stages.environments.spec import EnvironmentSpec, MissingKey, missing_tasks

if TYPE_CHECKING:
    from trajmill.schemas.record import Origin
    from trajmill.schemas.tables.query import Platform
    from trajmill.stages.environments.base import EnvironmentFactory
    from trajmill.stages.environments.tasks import ImportedQueries


class AndroidSpec(EnvironmentSpec):
    """Android devices that adb knows (extra `android`)."""

    kind: Literal["android"] = "android"
    """Android devices."""
    host: Annotated[str, OPERATIONAL] = "127.0.0.1"
    """Machine of the adb server."""
    port: Annotated[PositiveInt, OPERATIONAL] = 5037
    """Port of the adb server."""
    serials: Annotated[tuple[str, ...], OPERATIONAL] = ()
    """Devices to use, as `adb devices` names them; all connected devices if empty."""
    tasks: Path | None = None
    """File with your own tasks: one JSON object in each line (see environments.md)."""
    apps: dict[str, str] = {}
    """By name that tasks and agents use, the package of an app."""
    call_seconds: Annotated[PositiveFloat, OPERATIONAL] = 30.0
    """Time limit of a call to a device."""
    settle_seconds: PositiveFloat = 6.0
    """Longest wait for a screen to stop changing."""
    lease_seconds: Annotated[NonNegativeFloat, OPERATIONAL] = 60.0
    """Longest wait for a free device."""

    def factory(self, platform: Platform) -> EnvironmentFactory:
        """A factory of environments on free devices."""
        from trajmill.stages.environments.android.factory import AndroidFactory

        return AndroidFactory(self)

    @property
    def has_untried_tasks(self) -> bool:
        """Whether a file of tasks is named."""
        return self.tasks is not None

    async def own_queries(self, seed: int, origin: Origin) -> ImportedQueries:
        """The tasks of the file."""
        from trajmill.stages.environments.android.task import read_task_file
        from trajmill.stages.environments.tasks import ImportedQueries

        return ImportedQueries(read_task_file(self.tasks, origin) if self.tasks else [], [])

    def missing(self, other_queries: bool) -> list[MissingKey]:
        """The file of tasks."""
        return missing_tasks(self.tasks, other_queries)
