"""Serves the viewer until Ctrl-C or SIGTERM."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from trajmill.flows.serving.listening import is_loopback, listening, serve_app
from trajmill.flows.viewer.app import viewer_app
from trajmill.flows.viewer.guard import TOKEN
from trajmill.stages.environments.openenv.spec import read_token
from trajmill.warehouse.layout import Warehouse


class ViewOptions(NamedTuple):
    """Where the viewer listens."""

    host: str = "127.0.0.1"
    port: int = 8080
    """Port; 0 for a free one."""
    token_file: Path | None = None
    """File with the token that readers must send. Without it, a token is made where others can reach the viewer."""


def serve_viewer(warehouse: Warehouse, options: ViewOptions, ready: Callable[[str], None]) -> None:
    """Serve the viewer.

    Args:
        warehouse: what is shown.
        options: where.
        ready: called with the link, which carries the token if one is needed.

    Raises:
        BadInputError: an option is wrong, the port is taken, or a committed file is missing or damaged.
    """
    token = "" if options.token_file is None else read_token(options.token_file)
    if not token and not is_loopback(options.host):
        token = secrets.token_urlsafe(24)
    with listening(options.host, options.port) as listener:
        app = viewer_app(warehouse, token)
        host, port = listener.getsockname()[:2]
        name = f"[{host}]" if ":" in host else host
        ready(f"http://{name}:{port}/" + (f"?{TOKEN}={token}" if token else ""))
        asyncio.run(serve_app(app, listener))
