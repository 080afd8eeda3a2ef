"""The spec of Android devices as an environment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from trajmill.schemas.spec import OPERATIONAL
from trajmill.stages.environments.spec import TaskFileSpec

if TYPE_CHECKING:
    from trajmill.schemas.record import Origin
    from trajmill.schemas.tables.query import Platform, Query
    from trajmill.stages.environments.base import EnvironmentFactory


class AndroidSpec(TaskFileSpec):
    """Android devices that adb knows (extra `android`)."""

    kind: Literal["android"] = "android"
    """Android devices."""
    host: Annotated[str, OPERATIONAL] = "127.0.0.1"
    """Machine of the adb server."""
    port: Annotated[PositiveInt, OPERATIONAL] = 5037
    """Port of the adb server."""
    serials: Annotated[tuple[str, ...], OPERATIONAL] = ()
    """Devices to use, as `adb devices` names them; all connected devices if empty."""
    apps: dict[str, str] = {}
    """Android package of each app, by the name that tasks and agents use."""
    call_seconds: Annotated[PositiveFloat, OPERATIONAL] = 30.0
    """Time limit of a call to a device."""
    settle_seconds: PositiveFloat = 6.0
    """Longest wait for a screen to stop changing."""
    lease_seconds: Annotated[NonNegativeFloat, OPERATIONAL] = 60.0
    """Longest wait for a free device."""

    def factory(self, platform: Platform) -> EnvironmentFactory:
        from trajmill.stages.environments.android.environment import AndroidFactory

        return AndroidFactory(self)

    def read_tasks(self, file: Path, origin: Origin) -> list[Query]:
        from trajmill.stages.environments.android.task import read_task_file

        return read_task_file(file, origin)
