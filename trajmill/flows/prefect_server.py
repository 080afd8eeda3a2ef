"""A Prefect server that ends with the process that started it.

Prefect's own temporary server keeps running when its owner is killed. This one reads its standard input, a pipe that
nobody writes to, and ends when the pipe closes. The pipe closes however the owner ends.

Run as `python -m trajmill.flows.prefect_server PORT`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading


def main() -> None:
    """Serve the Prefect API on a local port until standard input closes."""
    import uvicorn

    port = int(sys.argv[1])
    threading.Thread(target=_end_with_owner, daemon=True).start()
    uvicorn.run(
        "prefect.server.api.server:create_app",
        factory=True,
        host="127.0.0.1",
        port=port,
        log_level="error",
        lifespan="on",
        timeout_graceful_shutdown=2,
    )


def _end_with_owner() -> None:
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(3.0)
    os._exit(0)


if __name__ == "__main__":
    main()
