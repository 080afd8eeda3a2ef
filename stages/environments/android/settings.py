"""What a user says about their devices."""

from __future__ import annotations

from trajmill.schemas.record import Record


class AndroidSettings(Record):
    """Devices, apps and time limits."""

    host: str = "127.0.0.1"
    """Of the adb server."""
    port: int = 5037
    """Of the adb server."""
    serials: tuple[str, ...] = ()
    """Devices that may be used, as `adb devices` names them; none stands for all that are connected."""
    apps: dict[str, str] = {}
    """Package by name of an app, as queries and agents say it."""
    call_seconds: float = 30.0
    """A call to a device that takes longer is a failure."""
    settle_seconds: float = 6.0
    """How long to wait at most for a screen to stop changing."""
    lease_seconds: float = 60.0
    """How long to wait at most for a device that nobody else uses."""
