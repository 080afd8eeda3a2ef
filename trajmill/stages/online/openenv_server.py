"""The web app of an environment server: OpenEnv's own routes, which a guard protects."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from openenv.core.env_server import ConcurrencyConfig, create_fastapi_app
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from trajmill.stages.online.host import EpisodeHost
from trajmill.stages.online.openenv_environment import GuiAction, GuiObservation, GuiSession, GuiState

NAME = "trajmill"
"""The environment's name in OpenEnv's task routes."""
_OPEN_PATHS = frozenset({"/health"})
_POLICY_VIOLATION = 1008


_FIRST_MESSAGE_SECONDS = 60.0
_GOING_AWAY = 1001


def environment_app(
    host: EpisodeHost, sessions: int, token: str = "", trouble: Callable[[], str] = lambda: ""
) -> ASGIApp:
    """The app that serves a host's episodes; make it in its own event loop.

    Args:
        host: runs the episodes.
        sessions: most clients at the same time.
        token: the token that each client must send as `Authorization: Bearer TOKEN`; empty needs none.
        trouble: why episodes do not reach the tables, for `/health`; empty if they do.
    """
    idle = host.settings.idle_seconds
    app = create_fastapi_app(
        partial(GuiSession, host, asyncio.get_running_loop()),
        GuiAction,
        GuiObservation,
        # For sessions without a socket: the guard ends silent sockets earlier, and a slow step is no silence.
        concurrency_config=ConcurrencyConfig(max_concurrent_envs=sessions, session_timeout=2 * idle),
        env_name=NAME,
        state_cls=GuiState,
        mode="simulation",
    )
    # The host ends a silent episode with its reason; its session ends a little later.
    return Guard(app, token, 1.1 * idle, trouble)


class Guard:
    """Refuses clients without the token, and pages of other sites in a browser on this machine; ends silent sockets."""

    def __init__(self, app: ASGIApp, token: str, idle_seconds: float, trouble: Callable[[], str]) -> None:
        """Protect an app; without a token, only pages of other sites are refused."""
        self._app = app
        self._token = token
        self._idle_seconds = idle_seconds
        self._trouble = trouble

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request or a connection."""
        if scope["type"] in ("http", "websocket") and not self._lets_in(scope):
            refusal: Any = PlainTextResponse("a token is needed: Authorization: Bearer TOKEN\n", status_code=401)
            if scope["type"] == "websocket":
                refusal = WebSocketClose(_POLICY_VIOLATION)
            await refusal(scope, receive, send)
            return
        if scope["type"] == "http" and scope["path"] == "/health" and self._trouble():
            # Whoever asks here may have no token: the reason is in the log and in `trajmill status`.
            unhealthy = JSONResponse({"status": "unhealthy", "reason": "episodes are not committed"}, status_code=503)
            await unhealthy(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._app(scope, self._impatient(receive, send), send)
        else:
            await self._app(scope, receive, send)

    def _impatient(self, receive: Receive, send: Send) -> Receive:
        """Receive the messages of a socket; one that is silent for too long is closed, so that its session ends."""
        waits = iter((self._idle_seconds, min(_FIRST_MESSAGE_SECONDS, self._idle_seconds)))

        async def next_message() -> Message:
            # The first message is the connection itself.
            try:
                return await asyncio.wait_for(receive(), next(waits, self._idle_seconds))
            except TimeoutError:
                await send({"type": "websocket.close", "code": _GOING_AWAY, "reason": "silent for too long"})
                return {"type": "websocket.disconnect", "code": _GOING_AWAY}

        return next_message

    def _lets_in(self, scope: Scope) -> bool:
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != headers.get("host"):
            return False
        if not self._token or scope["path"] in _OPEN_PATHS:
            return True
        given = headers.get("authorization", "").removeprefix("Bearer ")
        return hmac.compare_digest(given.encode(), self._token.encode())
