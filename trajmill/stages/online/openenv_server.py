"""The web app of an environment server: OpenEnv's own routes, which a guard protects."""

from __future__ import annotations

import asyncio
import hmac
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from openenv.core.env_server import ConcurrencyConfig, create_fastapi_app
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from trajmill.stages.online.host import EpisodeHost
from trajmill.stages.online.openenv_environment import GuiAction, GuiObservation, GuiSession, GuiState

NAME = "trajmill"
"""The environment's name in OpenEnv's task routes."""
_OPEN_PATHS = frozenset({"/health"})
_POLICY_VIOLATION = 1008


def environment_app(host: EpisodeHost, sessions: int, token: str = "") -> ASGIApp:
    """The app that serves a host's episodes; make it in its own event loop.

    Args:
        host: runs the episodes.
        sessions: most clients at the same time.
        token: the token that each client must send as `Authorization: Bearer TOKEN`; empty needs none.
    """
    app = create_fastapi_app(
        partial(GuiSession, host, asyncio.get_running_loop()),
        GuiAction,
        GuiObservation,
        # OpenEnv must not end slow sessions; the host ends the episodes of silent ones.
        concurrency_config=ConcurrencyConfig(max_concurrent_envs=sessions, session_timeout=None),
        env_name=NAME,
        state_cls=GuiState,
        mode="simulation",
    )
    return Guard(app, token)


class Guard:
    """Refuses clients without the token, and pages of other sites in a browser on this machine."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        """Protect an app; without a token, only pages of other sites are refused."""
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request or a connection."""
        if scope["type"] in ("http", "websocket") and not self._lets_in(scope):
            refusal: Any = PlainTextResponse("a token is needed: Authorization: Bearer TOKEN\n", status_code=401)
            if scope["type"] == "websocket":
                refusal = WebSocketClose(_POLICY_VIOLATION)
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _lets_in(self, scope: Scope) -> bool:
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != headers.get("host"):
            return False
        if not self._token or scope["path"] in _OPEN_PATHS:
            return True
        given = headers.get("authorization", "").removeprefix("Bearer ")
        return hmac.compare_digest(given.encode(), self._token.encode())
