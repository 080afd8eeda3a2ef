"""The watchdog process of one local desktop: it starts the desktop's server and cleans up after it in any case.

Run as `python -m trajmill.stages.environments.desktop.local.watchdog WIDTH HEIGHT`. It writes one line of JSON when the
desktop is ready, `{"port": ..., "token": ..., "folder": ...}`, or `{"error": ...}`. When its standard input closes,
because its parent closes it or has been killed, or when the server ends, it kills all its descendants and removes the
folder.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from trajmill.stages.environments.desktop.local.processes import adopt_orphans, end_descendants


def main() -> None:
    width, height = int(sys.argv[1]), int(sys.argv[2])
    adopt_orphans()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
    folder = Path(tempfile.mkdtemp(prefix="trajmill-desktop-"))
    try:
        server = os.fork()
        if server == 0:
            _serve(folder, width, height)
        wanted, alive = sys.stdin.fileno(), os.pidfd_open(server)
        select.select([wanted, alive], [], [])
    finally:
        end_descendants(os.getpid())
        shutil.rmtree(folder, ignore_errors=True)


def _serve(folder: Path, width: int, height: int) -> None:
    watchdog = os.getppid()
    try:
        # Imported after the fork, so that the watchdog needs little memory.
        from trajmill.stages.environments.desktop.local.server import serve

        serve(folder, width, height, watchdog)
    except BaseException as error:
        print(json.dumps({"error": " ".join(str(error).split())}), flush=True)
    finally:
        os._exit(1)


if __name__ == "__main__":
    main()
