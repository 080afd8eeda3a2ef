"""One session at an environment server, from an event loop; nothing is ever connected anew behind an episode's back."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from trajmill.schemas.errors import EnvironmentFailure
from trajmill.stages.environments.openenv.answers import STATE, read_data, session_address, token_headers
from trajmill.stages.environments.openenv.wire import MOST_MESSAGE_BYTES


class ServerSession:
    """A session that the server has room for."""

    def __init__(self, url: str, socket: ClientConnection) -> None:
        """Made by `open_session`."""
        self.url = url
        self._socket = socket

    async def ask(self, message: str) -> str | bytes:
        """Send a message and wait for the answer, for as long as the caller waits.

        Raises:
            EnvironmentFailure: the connection is lost.
        """
        try:
            # A server without room closes at once; what it has said first is still to be read.
            with suppress(ConnectionClosed):
                await self._socket.send(message)
            return await self._socket.recv()
        except (OSError, WebSocketException) as error:
            raise EnvironmentFailure(f"{self.url}: the connection was lost: {error}") from error

    async def state(self) -> dict[str, Any]:
        """The session's state; fails unless the server has room for it and answers."""
        return read_data(await self.ask(STATE), self.url)

    async def close(self) -> None:
        """End the session; closing twice is fine."""
        await self._socket.close()


async def open_session(url: str, token: str, seconds: float) -> ServerSession:
    """Open a session.

    Raises:
        BadInputError: the address is none.
        ServerBusy: the server has no room.
        EnvironmentFailure: the server cannot be reached, or takes no session.
    """
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
    session = ServerSession(url, socket)
    try:
        # A server without room takes the connection and says so in answer to the first message.
        await session.state()
    except BaseException:
        await session.close()
        raise
    return session
