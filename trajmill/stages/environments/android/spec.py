"""The spec of Android devices."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from trajmill.schemas.spec import LATER, OPERATIONAL, Spec
from trajmill.stages.environments.spec import MissingKey, TaskFileSpec

if TYPE_CHECKING:
    from trajmill.schemas.record import Origin
    from trajmill.schemas.tables.query import Platform
    from trajmill.stages.environments.base import EnvironmentFactory
    from trajmill.stages.environments.tasks import ImportedQueries


class RestoreHookSpec(Spec):
    """How a device other than an emulator is restored between two tasks."""

    command: Annotated[tuple[str, ...], Field(min_length=1)]
    """A program on this computer and its arguments, without a shell; `{serial}` is that of the device."""
    seconds: PositiveFloat = 900.0
    """Longest time of a restore."""


class AndroidWorldSpec(Spec):
    """AndroidWorld's tasks, which its own servers prepare and score."""

    servers: Annotated[dict[str, str], OPERATIONAL, Field(min_length=1)]
    """By the serial of each emulator, the address of its server, e.g. `emulator-5554 = "http://127.0.0.1:5000"`."""
    tasks: tuple[str, ...] = ()
    """Names of its tasks; all by default."""
    instances: PositiveInt = 4
    """Instances of each task: of four, two are for training, one is held out and one is for validation."""
    seed: int = 30
    """Seed of the instances."""
    max_steps: PositiveInt = 30
    """Most steps of an attempt."""
    seconds: Annotated[PositiveFloat, OPERATIONAL] = 150.0
    """Longest time of a request to a server."""


class AndroidSpec(TaskFileSpec):
    """Android devices that adb lists (extra `android`)."""

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
    """APK file of an app, by its name or package. A reset installs it if the device has another one, and grants all
    permissions that it requests."""
    call_seconds: Annotated[PositiveFloat, OPERATIONAL] = 30.0
    """Time limit of a call to a device."""
    settle_seconds: PositiveFloat = 6.0
    """Longest wait for a screen to stop changing."""
    lease_seconds: Annotated[NonNegativeFloat, OPERATIONAL] = 60.0
    """Longest wait for a free device."""
    snapshot: Annotated[str, LATER, Field(pattern=r"^[\w.-]{0,80}$")] = ""
    """Snapshot that each reset loads into an emulator, saved by `adb emu avd snapshot save NAME`."""
    restore: Annotated[RestoreHookSpec | None, OPERATIONAL] = None
    """How a device other than an emulator is restored before its next task."""
    android_world: Annotated[AndroidWorldSpec | None, LATER] = None
    """AndroidWorld's tasks, beside those of `tasks`."""

    @property
    def slow_seconds(self) -> float:
        return sum(each.seconds for each in (self.restore, self.android_world) if each)

    async def own_queries(self, seed: int, origin: Origin) -> ImportedQueries:
        """Return the tasks of the file and of AndroidWorld; the latter are not tried, as each try sets a device up."""
        found, spec = await super().own_queries(seed, origin), self.android_world
        if spec is None:
            return found
        from trajmill.stages.environments.android.world import WorldServer

        server = WorldServer(next(iter(spec.servers.values())), spec)
        await server.open()
        return found._replace(queries=[*found.queries, *await server.queries(origin)], untried=False)

    def missing(self, other_queries: bool) -> list[MissingKey]:
        return super().missing(other_queries or self.android_world is not None)

    def factory(self, platform: Platform) -> EnvironmentFactory:
        from trajmill.stages.environments.android.environment import AndroidFactory

        return AndroidFactory(self)
