"""Where episodes happen, beside the simulated world."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import PositiveFloat, PositiveInt

from trajmill.schemas.spec import OPERATIONAL, Fraction, Spec


class BrowserSection(Spec):
    """Web sites of your own choice, when `run.environment` is `browser`."""

    tasks: Path | None = None
    """Tasks of your own: one JSON object in each line (see environments.md)."""


class BrowserGymSection(Spec):
    """What is used of BrowserGym when `run.environment` is `browsergym` (extra `browsergym`)."""

    tasks: tuple[str, ...] = (
        "miniwob.click-button",
        "miniwob.click-dialog",
        "miniwob.click-link",
        "miniwob.enter-text",
    )
    """Names of its tasks, without `browsergym/`."""
    train_seeds: PositiveInt = 4
    """Instances of each task to learn on."""
    heldout_seeds: PositiveInt = 2
    """Instances of each task that are only evaluated on."""


class AndroidSection(Spec):
    """Devices that adb knows, when `run.environment` is `android`."""

    host: Annotated[str, OPERATIONAL] = "127.0.0.1"
    """Machine of the adb server."""
    port: Annotated[PositiveInt, OPERATIONAL] = 5037
    """Port of the adb server."""
    serials: Annotated[tuple[str, ...], OPERATIONAL] = ()
    """Devices to use, as `adb devices` names them; all that are connected if there are none."""
    tasks: Path | None = None
    """Tasks of your own: one JSON object in each line (see environments.md)."""
    apps: dict[str, str] = {}
    """Package of each app that tasks and agents name."""
    call_seconds: Annotated[PositiveFloat, OPERATIONAL] = 30.0
    """A call to a device that takes longer is a failure."""
    settle_seconds: PositiveFloat = 6.0
    """How long to wait at most for a screen to stop changing."""
    lease_seconds: Annotated[PositiveFloat, OPERATIONAL] = 60.0
    """How long to wait at most for a device that nobody else uses."""


class DesktopSection(Spec):
    """Desktops that speak the OSWorld server protocol, when `run.environment` is `desktop`."""

    servers: Annotated[tuple[str, ...], OPERATIONAL] = ()
    """Addresses of your machines, e.g. `http://10.0.0.7:5000`; without any, desktops are started here (extra
    `desktop`)."""
    tasks: Path | None = None
    """Folder of OSWorld task files; the packaged tasks without one."""
    held_out: Fraction = 0.25
    """Share of the tasks that is only evaluated on."""
