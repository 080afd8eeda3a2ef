"""The spec of Android devices."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from trajmill.schemas.spec import LATER, OPERATIONAL, Spec
from trajmill.stages.environments.spec import TaskFileSpec

if TYPE_CHECKING:
    from trajmill.schemas.tables.query import Platform
    from trajmill.stages.environments.base import EnvironmentFactory


class RestoreHookSpec(Spec):
    """How a device that is no emulator is restored between two tasks."""

    command: Annotated[tuple[str, ...], Field(min_length=1)]
    """A program on this computer and its arguments, without a shell; `{serial}` is that of the device."""
    seconds: PositiveFloat = 900.0
    """Longest time of a restore."""


class AndroidSpec(TaskFileSpec):
    """Android devices that adb knows (extra `android`)."""

    line: ClassVar[str] = f"{__package__}.task:PhoneTask"

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
    apks: Annotated[dict[str, Path], LATER] = {}
    """APK file of an app, by its name or package: a reset installs it if the device has another one, and grants the
    permissions that it requests."""
    call_seconds: Annotated[PositiveFloat, OPERATIONAL] = 30.0
    """Time limit of a call to a device."""
    settle_seconds: PositiveFloat = 6.0
    """Longest wait for a screen to stop changing."""
    lease_seconds: Annotated[NonNegativeFloat, OPERATIONAL] = 60.0
    """Longest wait for a free device."""
    snapshot: Annotated[str, LATER, Field(pattern=r"^[\w.-]{0,80}$")] = ""
    """Name of the snapshot that each reset loads into an emulator, as `adb emu avd snapshot save NAME` has saved it."""
    restore: Annotated[RestoreHookSpec | None, OPERATIONAL] = None
    """How a device that is no emulator is restored before its next task."""

    def factory(self, platform: Platform) -> EnvironmentFactory:
        from trajmill.stages.environments.android.environment import AndroidFactory

        return AndroidFactory(self)
