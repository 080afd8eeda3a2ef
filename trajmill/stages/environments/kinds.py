"""The kinds of environments: the built-in ones and those that installed packages add."""

from __future__ import annotations

from trajmill.stages.parts import PartGroup

_HERE = __package__

ENVIRONMENTS = PartGroup(
    "trajmill.environments",
    "environment",
    {
        "simulated": f"{_HERE}.simulated.spec:SimulatedSpec",
        "miniwob": f"{_HERE}.miniwob.spec:MiniWobSpec",
        "webapp": f"{_HERE}.webapp.spec:WebAppSpec",
        "browser": f"{_HERE}.browser.spec:BrowserSpec",
        "browsergym": f"{_HERE}.browsergym.spec:BrowserGymSpec",
        "android": f"{_HERE}.android.spec:AndroidSpec",
        "desktop": f"{_HERE}.desktop.spec:DesktopSpec",
        "devices": f"{_HERE}.devices.spec:DevicesTogetherSpec",
        "openenv": f"{_HERE}.openenv.spec:OpenEnvSpec",
    },
)
