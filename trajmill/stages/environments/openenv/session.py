"""Sessions at environment servers, for asyncio. A lost connection is not opened again: its episode is lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any, NamedTuple

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.stages.environments.openenv.answers import (
    STATE,
    EpisodeAnswer,
    ServerBusy,
    read_answer,
    read_data,
    session_address,
    token_headers,
)
from trajmill.stages.environments.openenv.wire import MOST_MESSAGE_BYTES
from trajmill.stages.environments.pool.machines import POLL_SECONDS


class ServerTimeouts(NamedTuple):
    """How long servers may take, in seconds."""

    connect: float = 10.0
    lease: float = 60.0
    """Longest wait for a server that can take a session, if this process has no session yet."""


class ServerSession:
    """An open session at a server."""

    def __init__(self, url: str, socket: ClientConnection, on_close: Callable[[], None]) -> None:
        """`ServerSessions` calls this."""
        self.url = url
        self._socket = socket
        self._on_close: Callable[[], None] | None = on_close

    async def ask(self, message: str) -> EpisodeAnswer:
        """Send a message and wait for the answer; the caller limits the time.

        Raises:
            EnvironmentFailure: the connection is lost, or the server says that it failed.
        """
        return read_answer(await self._sent(message), self.url)

    async def state(self) -> dict[str, Any]:
        """The state of the session; fails if the server cannot take the session or does not answer."""
        return read_data(await self._sent(STATE), self.url)

    async def close(self) -> None:
        """End the session, so that the server can take another one; closing twice is fine."""
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            on_close()
            await self._socket.close()

    async def _sent(self, message: str) -> str | bytes:
        try:
            # A full server closes the connection at once; its first message can still be read.
            with suppress(ConnectionClosed):
                await self._socket.send(message)
            return await self._socket.recv()
        except (OSError, WebSocketException) as error:
            raise EnvironmentFailure(f"{self.url}: the connection was lost: {error}") from error


class ServerSessions:
    """Opens sessions, each at the server where this process has the fewest.

    A session is a lease: it ends when it is closed, or when its process ends in any way.
    """

    def __init__(self, servers: tuple[str, ...], token: str, timeouts: ServerTimeouts = ServerTimeouts()) -> None:
        """Connect to nothing yet.

        Args:
            servers: addresses of the servers.
            token: the token that they ask for; empty if they ask for none.
            timeouts: how long the servers may take.
        """
        self._token = token
        self._timeouts = timeouts
        self._held = Counter(dict.fromkeys(servers, 0))
        """Number of open sessions of this process, by server."""

    async def open(self) -> ServerSession:
        """A session at a server that can take one; waits only if this process has no session yet.

        Raises:
            BadInputError: an address is not valid.
            EnvironmentFailure: of class `setup`: no server can take a session in time.
        """
        deadline = monotonic() + self._timeouts.lease
        while True:
            troubles: list[str] = []
            for url in sorted(self._held, key=lambda url: self._held[url]):
                session = await self._open_at(url, troubles)
                if session is not None:
                    return session
            if self._held.total() or monotonic() > deadline:
                text = f"no environment server is free: {'; '.join(troubles)}; name more servers, or run fewer episodes"
                raise EnvironmentFailure(text, FailureClass.SETUP)
            await asyncio.sleep(POLL_SECONDS)

    async def _open_at(self, url: str, troubles: list[str]) -> ServerSession | None:
        give_back = partial(self._held.subtract, [url])
        # Counted before the connection is open, so that episodes that start at the same time choose other servers.
        self._held[url] += 1
        try:
            return await _open_session(url, self._token, self._timeouts.connect, give_back)
        except ServerBusy:
            troubles.append(f"{url} is full")
        except EnvironmentFailure as error:
            troubles.append(str(error))
        except BaseException:
            give_back()
            raise
        give_back()
        return None


async def _open_session(url: str, token: str, seconds: float, on_close: Callable[[], None]) -> ServerSession:
    try:
        socket = await connect(
            session_address(url),
            additional_headers=token_headers(token),
            max_size=MOST_MESSAGE_BYTES,
            open_timeout=seconds,
            proxy=None,
        )
    except (OSError, TimeoutError, WebSocketException) as error:
        raise EnvironmentFailure(f"{url} cannot be reached: {error}") from error
    session = ServerSession(url, socket, on_close)
    try:
        # A full server accepts the connection, and says that it is full in answer to the first message.
        async with asyncio.timeout(seconds):
            await session.state()
    except TimeoutError as error:
        await socket.close()
        raise EnvironmentFailure(f"{url} did not answer within {seconds:g} s") from error
    except BaseException:
        await socket.close()
        raise
    return session
