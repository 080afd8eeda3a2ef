"""The spec of several devices in one episode."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from trajmill.stages.environments.android.spec import AndroidSpec
from trajmill.stages.environments.browser.spec import BrowserSpec
from trajmill.stages.environments.desktop.spec import DesktopSpec
from trajmill.stages.environments.simulated.spec import SimulatedSpec
from trajmill.stages.environments.spec import EnvironmentSpec, TaskFileSpec

if TYPE_CHECKING:
    from trajmill.schemas.record import Origin
    from trajmill.schemas.tables.query import Platform, Query
    from trajmill.stages.environments.base import EnvironmentFactory
    from trajmill.stages.environments.simulated.app_files.app_spec import AppSpec


class DevicesTogetherSpec(TaskFileSpec):
    """A phone, a desktop and a browser in one episode, for the agent `light_manus`."""

    kind: Literal["devices"] = "devices"
    """Several devices in one episode."""
    tasks: Path | None = None
    """File with tasks across devices: one JSON object in each line (see agents.md)."""
    simulated: SimulatedSpec = SimulatedSpec()
    """The simulated phone and desktop."""
    android: AndroidSpec | None = None
    """Android devices, in place of the simulated phone."""
    desktop: DesktopSpec | None = None
    """Desktops, in place of the simulated one."""
    browser: BrowserSpec | None = None
    """A browser, beside phone and desktop."""

    def factory(self, platform: Platform) -> EnvironmentFactory:
        from trajmill.schemas.tables.query import Platform
        from trajmill.stages.environments.devices.environment import DevicesFactory

        specs: dict[Platform, EnvironmentSpec | None] = {
            Platform.PHONE: self.android or self.simulated,
            Platform.DESKTOP: self.desktop or self.simulated,
            Platform.WEB: self.browser,
        }
        return DevicesFactory({name: spec.factory(name) for name, spec in specs.items() if spec}, platform)

    def read_tasks(self, file: Path, origin: Origin) -> list[Query]:
        from trajmill.schemas.tables.query import Platform
        from trajmill.stages.environments.devices.environment import read_device_tasks

        return read_device_tasks(file, Platform.PHONE, origin)

    def described_apps(self) -> tuple[AppSpec, ...]:
        from trajmill.schemas.tables.query import Platform

        real = {Platform.PHONE: self.android, Platform.DESKTOP: self.desktop}
        return tuple(app for app in self.simulated.described_apps() if real.get(app.platform) is None)
