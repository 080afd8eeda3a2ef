"""The server process of a local desktop."""

from __future__ import annotations

import json
import os
import secrets
import signal
from pathlib import Path

from trajmill.schemas.geometry import Size
from trajmill.stages.environments.desktop.local.desktop import LocalDesktop
from trajmill.stages.environments.desktop.local.processes import adopt_orphans, die_with_parent
from trajmill.stages.environments.desktop.local.server import serve_desktop
from trajmill.stages.environments.desktop.local.session.user import drop_root_rights, private_home


def serve(folder: Path, width: int, height: int, watchdog: int) -> None:
    """Start a desktop in its own folder, print its address, and serve it for ever.

    Raises:
        EnvironmentFailure: the desktop does not start (class `setup`).
    """
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    home = private_home(folder / "home")
    drop_root_rights(folder)
    die_with_parent()
    if os.getppid() != watchdog:
        return
    adopt_orphans()
    token = secrets.token_hex(16)
    desktop = LocalDesktop(home, folder / "session", Size(width, height))
    server = serve_desktop(desktop, token)
    print(json.dumps({"port": server.server_address[1], "token": token, "folder": str(folder)}), flush=True)
    server.serve_forever()
